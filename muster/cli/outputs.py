"""Files that commands write: refused before any work is done."""

from __future__ import annotations

from pathlib import Path

from muster.problems import InputError, Problem

CHART_SUFFIXES = (".svg", ".png")


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that exists, unless `overwrite`."""
    if path.is_file() and not overwrite:
        raise InputError(Problem(str(path), "the file exists; allowed: another name, or --overwrite"))


def check_chart(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a chart of a kind that cannot be drawn, and a file that exists, unless `overwrite`; None is no chart."""
    if path is None:
        if overwrite:
            raise InputError(
                Problem("--overwrite", "it is of the file of --chart; give --chart, or leave it out")
            )
        return
    if path.suffix.lower() not in CHART_SUFFIXES:
        allowed = f"allowed: a file that ends in {' or '.join(CHART_SUFFIXES)}"
        raise InputError(Problem("--chart", allowed, found=str(path)))
    check_output(path, overwrite=overwrite)


def check_other_file(output: Path, source: Path, what: str) -> None:
    """Refuse an output that is the file from which it is made, also by another name; `what` says which that is."""
    if output.exists() and source.exists() and output.samefile(source):
        raise InputError(Problem("--output", f"{what}; allowed: another file", found=str(output)))
