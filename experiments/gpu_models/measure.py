"""Profiles the four models, then measures points that the profiles did not visit.

    python3 -m experiments.gpu_models.measure --out FOLDER

Writes a JSON file for each model as soon as it is profiled, and again after each further point. All models are profiled
before a further point is measured, so a run that is cut short lacks points, not models. `--parts compute` measures what
a step computes by its samples. With `--profiles experiments/gpu_models/measured` a later run adds to what one found.

It needs the packages of `experiments.gpu_models.train`, and nothing compiled.
`experiments.gpu_models.model_files` makes model files of what it wrote.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.gpu_models.data import make_data
from experiments.gpu_models.documents import Measured, read
from experiments.gpu_models.held_out import Budget, OutOfTime, affordable, held_out_points
from experiments.gpu_models.machine import describe_machine
from experiments.gpu_models.recipes import RECIPES
from muster.profiling.compute import measure_compute
from muster.profiling.cpus import cpu_points
from muster.profiling.job import JobToProfile, running
from muster.profiling.optimistic import profile_job
from muster.profiling.rates import Precision

PRECISION = Precision(error=0.05, least_windows=3, most_windows=8)
"""Of a profile's points: four windows a visit."""
HELD_OUT_PRECISION = Precision(error=0.05, least_windows=3, most_windows=5)
COMPUTE_PRECISION = Precision(error=0.05, least_windows=3, most_windows=8)
"""A GPU that does the same again and again needs fewer windows."""
MOST_POINTS = 9
"""Held out, for each model."""
SHARES = (1, 4, 3, 2, 8)
"""Among whom a batch is shared where compute is measured, the most important number first."""
SECONDS_A_POINT = 15.0
"""That a point held out takes, in the mean; one of compute takes half of that."""
START_SECONDS = 20.0
"""Until a job that repeats a batch makes steps, and for its largest batch a second time."""
PATIENCE_SECONDS = 60.0
"""For a job's first step, and for filling its cache."""


class Measurement:
    """The models under measurement, and the time for them."""

    def __init__(self, chosen: argparse.Namespace, data: Path, budget: Budget) -> None:
        self._chosen = chosen
        self._data = data
        self._budget = budget
        self._measured = {model: self._begun(model) for model in chosen.models}

    def run(self) -> None:
        """One part after the other, each model within an equal part of the time that is left."""
        make_data(self._data, self._chosen.models, tiny=self._chosen.tiny)
        self._say("made the data")
        for part in self._chosen.parts:
            self._for_each(part, PARTS[part])
        self._say("done")

    def _begun(self, model: str) -> Measured:
        """What an earlier run measured of it, or nothing yet."""
        if self._chosen.profiles is not None:
            return read(self._chosen.profiles / f"{model}.json")
        return Measured(model, ["python3", "-m", *self._words(model, "FOLDER")], describe_machine())

    def _for_each(self, part: str, do: Callable[[Measurement, str, float], None]) -> None:
        models = [
            model for model, measured in self._measured.items() if part != "held-out" or measured.profile
        ]
        for number, model in enumerate(models):
            deadline = self._budget.deadline(len(models) - number)
            self._say(f"{model}, {part}: until {deadline:.0f} s")
            try:
                do(self, model, deadline)
            except OutOfTime:
                self._say(f"{model}, {part}: out of time")
            except Exception:  # the other models are still to be measured
                self._say(f"{model}, {part}: {traceback.format_exc()}")
            else:
                self._say(f"{model}, {part}: done")

    def profile(self, model: str, deadline: float) -> None:
        """What `muster profile` does, without compute."""
        self._measured[model].profile = profile_job(
            self._job(model),
            most_cpus=self._chosen.cpus,
            shares=(),
            precision=PRECISION,
            on_progress=self._progress(model, deadline),
        )
        self._measured[model].write(self._chosen.out)

    def hold_out(self, model: str, deadline: float) -> None:
        """As many points as there is time for once the cache is full."""
        measured, budget = self._measured[model], self._budget
        assert measured.profile is not None
        points, reading = measured.profile.points, measured.profile.reading
        full_gb = 0.0 if reading is None else reading.full_gb
        with running(self._job(model), self._progress(model, deadline)) as run:
            run.start(cores=points[-1], cache_gb=full_gb, cached_only=False)
            begin = budget.spent
            count = affordable(deadline - begin, SECONDS_A_POINT, MOST_POINTS)
            for share, cores_there in held_out_points(points, measured.profile.rates, count):
                run.set_cache(share * full_gb)
                for cores in cores_there:
                    rate, _ = run.measure(cores, HELD_OUT_PRECISION)
                    measured.held_out.append({"cores": cores, "memory_gb": share * full_gb, **asdict(rate)})
                    measured.held_out_seconds = budget.spent - begin
                    measured.write(self._chosen.out)

    def compute(self, model: str, deadline: float) -> None:
        """With as many numbers of samples as there is time for, two at least."""
        points = affordable(deadline - self._budget.spent - START_SECONDS, SECONDS_A_POINT / 2, len(SHARES))
        with running(self._job(model), self._progress(model, deadline)) as run:
            cores = cpu_points(self._chosen.cpus, fractions=run.has_quota)[-1]
            shares = SHARES[: max(2, points)]
            self._measured[model].compute = measure_compute(run, cores, COMPUTE_PRECISION, shares)
        self._measured[model].write(self._chosen.out)

    def _job(self, model: str) -> JobToProfile:
        command = [sys.executable, "-m", *self._words(model, str(self._data))]
        return JobToProfile(command, patience_seconds=PATIENCE_SECONDS)

    def _words(self, model: str, data: str) -> list[str]:
        """Of the command line of a training, behind `python3 -m`."""
        tiny = ["--tiny"] if self._chosen.tiny else []
        own = shlex.split(self._chosen.train)
        return ["experiments.gpu_models.train", model, "--data", data, *own, *tiny]

    def _progress(self, model: str, deadline: float) -> Callable[[str], None]:
        def on_progress(what: str) -> None:
            self._say(f"{model}: {what}")
            self._budget.check(deadline)

        return on_progress

    def _say(self, what: str) -> None:
        print(f"{self._budget.spent:6.1f} s  {what}", flush=True)


PARTS = {"profile": Measurement.profile, "held-out": Measurement.hold_out, "compute": Measurement.compute}


def main() -> None:
    """Measures all that the time is enough for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON files")
    parser.add_argument(
        "--profiles", type=Path, help="folder of an earlier run's files, to which parts are added"
    )
    parser.add_argument("--budget", type=float, default=560.0, help="seconds for all of it")
    parser.add_argument("--models", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["profile", "held-out"])
    parser.add_argument("--cpus", type=float, help="most cores (default: all)")
    parser.add_argument("--train", default="", help="more words for experiments.gpu_models.train")
    parser.add_argument("--tiny", action="store_true", help="tiny networks, to try it out")
    chosen = parser.parse_args()
    budget = Budget(chosen.budget)
    chosen.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="gpu-models-") as folder:
        Measurement(chosen, Path(folder), budget).run()


if __name__ == "__main__":
    main()
