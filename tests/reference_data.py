"""Published inputs and results that tests compare with: archives in tests/data, and how to pack and unpack them.

    python -m tests.reference_data FOLDER                     unpack all archives into FOLDER
    python -m tests.reference_data FOLDER --pack REFERENCE    make the archives in FOLDER from the reference data

An unpacked folder is laid out as the reference data, so MUSTER_REFERENCE may name it.
"""

from __future__ import annotations

import argparse
import tarfile
from collections.abc import Mapping
from pathlib import Path

ARCHIVES_FOLDER = Path(__file__).parent / "data"
CONTENTS: Mapping[str, tuple[str, ...]] = {
    "fifo": ("parity/fifo/*.csv",),
    "philly": ("data/traces/philly.csv.xz", "data/clusters/philly_machines.csv"),
    "philly-tenants": ("data/traces/philly_with_tenants.csv.xz",),
    "pollux": (
        "data/profiles/pollux/*/*",
        "parity/elastic/tables/apps.csv",
        "parity/elastic/tables/statistics.csv",
        "parity/elastic/tables/t4_seconds_per_iteration.csv",
        "parity/elastic/sia/*_pollux-*",
    ),
    "rubick": ("parity/elastic/rubick/*", "parity/elastic/tables/rubick_*.csv"),
    "slurm": ("parity/slurm/*.csv", "parity/slurm/*.csv.xz"),
    "synergy": ("parity/synergy/*.csv", "parity/synergy/profiles.json"),
}
"""The files of each archive, one archive for each source and licence."""


def unpack(folder: Path) -> None:
    """Unpack all archives into a folder."""
    for archive in sorted(ARCHIVES_FOLDER.glob("*.tar.xz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")


def pack(reference: Path, folder: Path) -> None:
    """Make the archives of CONTENTS in a folder; equal files give equal bytes."""
    for name, patterns in CONTENTS.items():
        files = sorted({file for pattern in patterns for file in reference.glob(pattern)})
        with tarfile.open(folder / f"{name}.tar.xz", "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as packed:
            for file in files:
                member = tarfile.TarInfo(file.relative_to(reference).as_posix())  # no owner, no time
                member.size = file.stat().st_size
                with file.open("rb") as content:
                    packed.addfile(member, content)


def main() -> None:
    """Unpack the archives, or make them."""
    parser = argparse.ArgumentParser(description="Unpack the reference data of tests/data, or pack it.")
    parser.add_argument("folder", type=Path, help="Folder to write to.")
    parser.add_argument(
        "--pack", type=Path, metavar="REFERENCE", help="Make archives of this reference data."
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.pack is None:
        unpack(arguments.folder)
    else:
        pack(arguments.pack, arguments.folder)


if __name__ == "__main__":
    main()
