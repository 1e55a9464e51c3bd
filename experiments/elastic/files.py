"""Where the inputs of both worlds lie, and how they are read."""

from __future__ import annotations

import lzma
from pathlib import Path

import polars as pl

FOLDER = Path("parity") / "elastic"
"""Under the folder of the reference data."""
FURTHER_FOLDER = "unlicensed"
"""Under `FOLDER`: what may be read where it is present, and does not ship."""


def read_table(file: Path) -> pl.DataFrame:
    """A table of the reference data; a file that is compressed and ends in .xz is as good."""
    packed = file.with_name(file.name + ".xz")
    if packed.exists():
        return pl.read_csv(lzma.decompress(packed.read_bytes()), schema_overrides=_TEXT)
    return pl.read_csv(file, schema_overrides=_TEXT)


_TEXT = {
    "placement": pl.String,
    "gpus_per_node": pl.String,
    "nodes": pl.String,
    "nodes_held": pl.String,
    "plan": pl.String,
}
