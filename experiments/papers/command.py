"""`muster reproduce`: a paper's experiments, what it reported beside what comes out here."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags

REFERENCE = "MUSTER_REFERENCE"
"""Names the folder of published inputs and results."""


def reproduce(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="Paper whose experiments to repeat: synergy, smd or dally.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Run fewer loads and seeds; takes some minutes.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the results; finished runs in it are kept.",
            show_default="muster-PAPER",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Experiment to run; repeatable; a wrong name lists them (default: all)."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of runs at a time (default: one for each CPU core)."),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Repeat the experiments of a paper: reported, published program, Muster.

    It may be stopped at any moment: the same command goes on where it was.
    MUSTER_REFERENCE names the folder of published inputs, where there is one.

    Example: muster reproduce synergy --quick
    """
    from experiments.papers import paper_named
    from experiments.papers.experiment import Effort
    from muster.cli.kept_runs import run_kept

    chosen = paper_named(paper, only)
    folder = out or Path(f"muster-{paper}")
    effort = Effort(quick, _reference())
    works = [experiment.pieces(effort) for experiment in chosen.experiments]
    results = iter(
        run_kept([piece for work in works for piece in work], folder, workers or os.cpu_count() or 1)
    )
    from experiments.papers.write import terminal_table, write_findings

    found = [
        (experiment, experiment.read(effort, [next(results) for _ in work]))
        for experiment, work in zip(chosen.experiments, works, strict=True)
    ]
    command = ["muster", "reproduce", paper, *(["--quick"] if quick else [])]
    command += [word for name in only or () for word in ("--only", name)] + ["--out", str(folder)]
    write_findings(folder, chosen, found, shlex.join(command))
    if as_json:
        print((folder / "reproduction.json").read_text(encoding="utf-8"), end="")
        return
    from rich.console import Console

    Console().print(terminal_table(found))
    print(f"The page with charts: {folder / 'report.html'}")


def _reference() -> Path | None:
    """The folder that the environment names, if it is one."""
    named = os.environ.get(REFERENCE)
    if named is None:
        return None
    folder = Path(named)
    if not (folder / "parity").is_dir():
        print(f"{REFERENCE}={named} holds no parity folder; same-input rows are left out", file=sys.stderr)
        return None
    return folder
