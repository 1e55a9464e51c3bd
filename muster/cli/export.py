"""`muster export`: the record of what really happened."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import IO, Annotated

import typer

from muster.cli import flags


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder for the record; it is written whole or not at all.")
    ],
    overwrite: flags.Overwrite = False,
    as_json: flags.Json = False,
) -> None:
    """Write the record of what really happened, for muster report, and what ran as a trace, for muster compare.

    Example: muster export muster-record
    """
    from muster.files import write_folder_aside
    from muster.folder_layouts import EXPORT
    from muster.formatting import as_json_text
    from muster.service.client import Client

    with (
        Client.of_environment() as client,
        write_folder_aside(folder, EXPORT if overwrite else None) as aside,
        tempfile.TemporaryFile() as archive,
    ):
        for piece in client.download("/v1/export"):
            archive.write(piece)
        archive.seek(0)
        _unpack(archive, aside)
    if as_json:
        print(as_json_text({"record": str(folder)}), end="")
    else:
        print(f"The record is in {folder}. Its page with charts: muster report {folder}")
        print(
            f"What ran under other schedulers: muster compare {folder}/trace.csv --cluster {folder}/cluster.toml"
        )


def _unpack(archive: IO[bytes], folder: Path) -> None:
    """Plain files by their plain names, and nothing else that an archive may hold."""
    with tarfile.open(fileobj=archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                (folder / Path(member.name).name).write_bytes(content.read())
