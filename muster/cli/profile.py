"""`muster profile`: what a job is sensitive to, measured on the job itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.flag_groups import takes_flag_groups
from muster.cli.flags import Json, Overwrite, script_of
from muster.problems import ErrorCollector, InputError, Problem

if TYPE_CHECKING:
    from muster.profiling.job import JobToProfile
    from muster.training.unchanged import UnchangedJob


@dataclass(frozen=True)
class MeasuringFlags:
    """How the job is run and how precisely it is measured."""

    cpus: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="Largest number of CPU cores to measure with (default: all of this machine)."
        ),
    ] = None
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Samples per iteration, for a job that does not report them (default: as reported).",
        ),
    ] = None
    progress: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help=r"Expression that finds the step in the output of a job without muster.training, "
            r"as 'step (?P<step>\d+)' (default: the job reports steps).",
        ),
    ] = None
    gpu: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="GPUs to use, as CUDA_VISIBLE_DEVICES names them (default: those that are not in use).",
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Largest number of workers to measure, each on a GPU of its own, or on a CPU core without GPUs "
            "(default: as many as there are free GPUs, at most 4).",
        ),
    ] = None
    precision: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            min=0.1,
            max=50,
            help="Confidence interval that each point must reach, as a percentage of its rate.",
        ),
    ] = 2.0
    patience: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Longest wait for the first step and for the cache to fill, as 5min."
        ),
    ] = "5min"
    exhaustive: Annotated[
        bool,
        typer.Option(
            "--exhaustive", help="Measure every point too and compare with the prediction; takes long."
        ),
    ] = False

    def job(self, command: Sequence[str], errors: ErrorCollector) -> JobToProfile:
        """The job as it is run for measuring; `errors` collects the errors."""
        from muster.gpus import check_gpus, free_gpus
        from muster.profiling.job import JobToProfile
        from muster.units import seconds_of

        seconds = errors.of(seconds_of, "--patience", self.patience)
        unchanged = None
        if self.progress is not None:
            unchanged = errors.of(self._unchanged, self.progress)
        gpu = self.gpu
        if gpu is None:
            gpu = ",".join(errors.of(free_gpus) or ()) or None
        else:
            errors.of(check_gpus, gpu)
        job = JobToProfile(command, unchanged, seconds, gpu)
        errors.of(job.check)
        return job

    def _unchanged(self, progress: str) -> UnchangedJob:
        from muster.training.unchanged import UnchangedJob

        try:
            return UnchangedJob(progress=progress)
        except InputError as bad:
            named = (Problem("--progress", problem.what, found=problem.found) for problem in bad.problems)
            raise InputError(*named) from None


@takes_flag_groups()
def profile(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="Command that runs the job.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the model (default: the name of the script).")
    ] = None,
    family: Annotated[
        str,
        typer.Option(metavar="WORD", help="Family of the model: image, language, speech or another word."),
    ] = "measured",
    *,
    measuring: MeasuringFlags,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Model file to write (default: NAME.toml in MUSTER_HOME/models).",
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Measure in minutes how a job's speed depends on CPU, memory and storage.

    Writes a model file, which simulations and the daemon go by, and a chart.

    Example: muster profile -- python train.py
    """
    from muster.cli import profile_view as view
    from muster.extras import CHARTS, missing_extra
    from muster.profiling.grid import measure_grid
    from muster.profiling.model import memory_points, model_of, model_toml
    from muster.profiling.optimistic import profile_job
    from muster.profiling.rates import Precision

    name = name or script_of(command)
    errors = ErrorCollector()
    path = errors.of(_place, out, name, overwrite)
    job = measuring.job(command, errors)
    errors.settle()

    exact = Precision(error=measuring.precision / 100)
    with view.progress_line() as on_progress:
        measured = profile_job(
            job,
            most_cpus=measuring.cpus,
            most_workers=measuring.workers,
            precision=exact,
            on_progress=on_progress,
        )
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        source = f"muster profile on {today}, {view.how(measured)}"
        model = model_of(measured, name=name, family=family, batch=measuring.batch, source=source)
        grid = None
        if measuring.exhaustive:
            memory = memory_points(measured.reading)
            grid = measure_grid(
                job,
                cpus=measured.points,
                memory_gb=memory,
                compute=measured.compute,
                precision=exact,
                on_progress=on_progress,
            )

    from muster.files import write_aside

    text = model_toml(model, view.remarks(measured, command))
    with write_aside(path) as aside:
        # A command's words need not be text; as comments they are only to be looked at.
        aside.write_bytes(text.encode(errors="replace"))
    missing = missing_extra(CHARTS)
    if missing:
        print(f"no chart: {missing}", file=sys.stderr)
    charts = [] if missing else view.draw(measured, model, grid, path)
    if as_json:
        print(json.dumps(view.document(measured, model, grid, path, charts), indent=2))
    else:
        view.show(measured, model, grid, [path, *charts])


def _place(out: Path | None, name: str, overwrite: bool) -> Path:
    """Where the model file goes; refused before the work is done."""
    from muster.service.home import home_folder, make_home, models_folder

    if out is None:
        if "/" in name or name.startswith("."):
            raise InputError(
                Problem("--name", "this cannot be a file's name; name another, or say --out", found=name)
            )
        home = home_folder()
        make_home(home)
        out = models_folder(home) / f"{name}.toml"
    if out.suffix != ".toml":
        raise InputError(Problem("--out", "a model file ends with .toml", found=str(out)))
    if not out.parent.is_dir():
        raise InputError(Problem("--out", "its folder does not exist", found=str(out)))
    if out.exists() and not overwrite:
        raise InputError(Problem(str(out), "the file exists; name another one or say --overwrite"))
    return out
