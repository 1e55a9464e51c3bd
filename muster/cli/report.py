"""`muster report`: the page of a run or of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that simulate or compare wrote.")],
    as_json: flags.Json = False,
) -> None:
    """Make report.html, and each chart as SVG and PNG, in the folder of a run or of a comparison.

    Example: muster report muster-comparison
    """
    from muster.extras import CHARTS, require
    from muster.formatting import as_json_text

    require(CHARTS)
    from muster.report.page import write_report

    page = write_report(folder)
    print(as_json_text({"report": str(page)}) if as_json else f"The page with charts: {page}\n", end="")
