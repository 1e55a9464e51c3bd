"""`muster snapshot`: the whole input of the daemon's last decision, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags


def snapshot(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.")] = Path(
        "snapshot.json"
    ),
    overwrite: flags.Overwrite = False,
    as_json: flags.Json = False,
) -> None:
    """Write the whole input of the daemon's last decision: jobs, nodes, what runs where, scheduler. For operators.

    Example: muster snapshot -o snapshot.json
    """
    from muster.cli.outputs import check_output
    from muster.files import write_aside
    from muster.formatting import as_json_text
    from muster.service.client import Client

    check_output(out, overwrite=overwrite)
    with Client.of_environment() as client, write_aside(out) as aside, aside.open("wb") as file:
        for piece in client.download("/v1/snapshot"):
            file.write(piece)
    if as_json:
        print(as_json_text({"out": str(out)}), end="")
    else:
        print(f"The snapshot is in {out}; decide it again: muster replay {out}")
