"""`muster generate`: synthetic traces, each kind a command of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.cli.flag_groups import takes_flag_groups
from muster.cli.help import Command

if TYPE_CHECKING:
    from muster.workload.trace import Trace

generate = typer.Typer(
    help="Make a trace: Synergy's, SMD's, one like Philly, a mixed one; or a month of a Slurm site.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: muster generate philly-like --jobs 2000 --seed 1 -o trace.csv",
)

Jobs = Annotated[int, typer.Option(metavar="N", help="Number of jobs.")]


@dataclass(frozen=True)
class TraceOutputFlags:
    """Where a trace goes."""

    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: .csv or .parquet.")
    ]
    overwrite: flags.Overwrite = False
    as_json: flags.Json = False


@generate.command(cls=Command)
@takes_flag_groups()
def synergy(
    jobs: Jobs,
    load: Annotated[
        float | None,
        typer.Option(metavar="N", help="Arrivals per hour; not with --static (default: 9)."),
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="I,L,S", help="Relative shares of image, language and speech models.")
    ] = "20,70,10",
    multi_gpu: Annotated[
        bool, typer.Option("--multi-gpu", help="Give jobs 1 to 16 GPUs (default: 1 GPU each).")
    ] = False,
    static: Annotated[
        bool,
        typer.Option(
            "--static",
            help="Submit all jobs at time 0, with shorter durations (default: arrivals over time).",
        ),
    ] = False,
    seed: flags.Seed = 0,
    *,
    to: TraceOutputFlags,
) -> None:
    """Make a trace of Synergy's ten models.

    Example: muster generate synergy --jobs 5000 --load 9 -o trace.csv
    """
    from muster.problems import InputError, Problem
    from muster.workload.generators.synergy import DEFAULT_LOAD
    from muster.workload.generators.synergy import generate as make

    if static and load is not None:
        what = "with --static all jobs arrive at time 0; leave one of the two out"
        raise InputError(Problem("--load", what, found=load))
    rate = DEFAULT_LOAD if load is None else load
    _write(partial(make, jobs, rate, _split(split), multi_gpu, static, seed), to)


@generate.command(cls=Command)
@takes_flag_groups()
def philly_like(
    jobs: Jobs,
    per_hour: Annotated[
        float, typer.Option(metavar="N", help="Arrivals per hour, as the mean over a week.")
    ] = 56.5,
    tenants: Annotated[
        int, typer.Option(metavar="N", help="Number of tenants, of very different size.")
    ] = 15,
    seed: flags.Seed = 0,
    *,
    to: TraceOutputFlags,
) -> None:
    """Make a trace with Philly's sizes, durations, rhythm, tenants.

    Example: muster generate philly-like --jobs 2000 --seed 1 -o trace.csv
    """
    from muster.workload.generators.philly_like import generate as make

    _write(partial(make, jobs, per_hour, tenants, seed), to)


@generate.command(cls=Command)
@takes_flag_groups()
def mixed(
    jobs: Jobs,
    gpus: Annotated[
        int, typer.Option(metavar="N", help="Number of GPUs of the cluster that the load is meant for.")
    ],
    load: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Share of the GPU time of the cluster that the jobs ask for."),
    ] = 0.8,
    seed: flags.Seed = 0,
    *,
    to: TraceOutputFlags,
) -> None:
    """Make a trace that asks for a share of a cluster's time.

    Example: muster generate mixed --jobs 20000 --gpus 512 -o trace.csv
    """
    from muster.workload.generators.mixed import generate as make

    _write(partial(make, jobs, gpus, load, seed), to)


@generate.command(cls=Command)
@takes_flag_groups()
def smd(
    jobs: Jobs,
    per_hour: Annotated[
        float | None,
        typer.Option(metavar="N", help="Arrivals per hour (default: submit all jobs at time 0)."),
    ] = None,
    ring: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="Share of jobs that reduce gradients in a ring instead of on parameter servers.",
        ),
    ] = 0.0,
    seed: flags.Seed = 0,
    *,
    to: TraceOutputFlags,
) -> None:
    """Make a trace of parameter-server jobs with SMD's utilities.

    Example: muster generate smd --jobs 100 --seed 1 -o ps-jobs.csv
    """
    from muster.workload.generators.smd import generate as make

    _write(partial(make, jobs, per_hour, ring, seed), to)


@generate.command(cls=Command)
def slurm_month(
    jobs: Jobs,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="New folder for sacct.txt and scontrol.txt."),
    ],
    gpus: Annotated[int, typer.Option(metavar="N", help="Number of GPUs of the site, in nodes of 8.")] = 256,
    load: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the GPU time of the site that the jobs ask for.")
    ] = 0.85,
    seed: flags.Seed = 0,
    overwrite: flags.Overwrite = False,
    as_json: flags.Json = False,
) -> None:
    """Make a month of a Slurm site, as sacct and scontrol print it.

    Example: muster generate slurm-month --jobs 2000 --gpus 256 -o site
    """
    from muster.cli.progress import spinner
    from muster.cluster.slurm_nodes import read_slurm_site
    from muster.files import write_folder_aside
    from muster.folder_layouts import SLURM_MONTH
    from muster.formatting import as_json_text, counted
    from muster.schedulers.registry import build
    from muster.simulation import simulate
    from muster.workload.generators.slurm_month import generate as make
    from muster.workload.generators.slurm_month import sacct_lines

    with (
        write_folder_aside(output, SLURM_MONTH if overwrite else None) as folder,
        spinner("Simulating the site, to know when its jobs started"),
    ):
        month = make(jobs, gpus, load, seed)
        cluster = read_slurm_site(month.scontrol, "scontrol.txt", "scontrol").cluster
        record = simulate(month.trace, cluster, build("fifo+easy+requested")).record
        places = record.allocations.group_by("job_id", maintain_order=True).agg("node")
        starts = dict(record.jobs.select("job_id", "start_seconds").iter_rows())
        lines = sacct_lines(month, starts, dict(places.iter_rows()))
        (folder / "sacct.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
        (folder / "scontrol.txt").write_text(month.scontrol, encoding="utf-8")
    content = {"output": str(output), "jobs": jobs, "gpus": cluster.total_gpus, "source": month.trace.source}
    print(
        as_json_text(content)
        if as_json
        else f"{counted(jobs, 'job')} on {cluster.total_gpus:,} GPUs in {output}\n",
        end="",
    )


def _split(text: str) -> list[int]:
    from muster.problems import InputError, Problem

    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(Problem("--split", "allowed: three whole numbers, as 20,70,10", found=text))
    return [int(part) for part in parts]


def _write(make: Callable[[], Trace], to: TraceOutputFlags) -> None:
    from muster.cli.outputs import check_output
    from muster.cli.progress import spinner
    from muster.formatting import as_json_text, counted
    from muster.workload.trace import trace_writer

    check_output(to.output, overwrite=to.overwrite)
    with trace_writer(to.output) as write, spinner("Making the trace"):
        trace = make()
        write(trace)
    content = {"output": str(to.output), "jobs": len(trace.jobs), "source": trace.source}
    text = f"{counted(len(trace.jobs), 'job')} in {to.output}\n"
    print(as_json_text(content) if to.as_json else text, end="")
