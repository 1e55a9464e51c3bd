"""`muster report`: the page of a run or of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder that simulate, compare or export wrote.")
    ],
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="KIND",
            help="What to write: html, svg, png or csv; repeatable (default: html, svg and png).",
        ),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Make report.html, and each chart as a file in charts/, in the folder of a run, comparison or export.

    Example: muster report muster-comparison --format html --format csv
    """
    from muster.cli.progress import DRAWING, spinner
    from muster.extras import CHARTS, require
    from muster.formatting import as_json_text

    require(CHARTS)
    from muster.inputs import knowledge_of
    from muster.problems import InputError, Problem
    from muster.report.frame import BY_DEFAULT, FORMATS
    from muster.report.page import write_report

    unknown = [kind for kind in kinds or () if kind not in FORMATS]
    if unknown:
        allowed = f"allowed: {', '.join(FORMATS)}"
        raise InputError(*(Problem("--format", allowed, found=kind) for kind in unknown))
    with spinner(DRAWING):
        written = write_report(folder, kinds or BY_DEFAULT, knowledge_of)
    what = "The page with charts" if written.suffix == ".html" else "The charts"
    name = "report" if written.suffix == ".html" else "charts"
    print(as_json_text({name: str(written)}) if as_json else f"{what}: {written}\n", end="")
