"""What commands write into folders of their own: nothing else is in a folder that `--overwrite` replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass(frozen=True)
class FolderLayout:
    """The names in a folder that a command writes. Links are in none."""

    files: Sequence[str]
    """Patterns."""
    folders: Mapping[str, FolderLayout] = field(default_factory=dict)
    """By pattern; the first that fits holds."""
    marker: str | None = None
    """The file that is in each such folder; None: it may hold any of the files."""

    def also(self, *files: str) -> FolderLayout:
        """Return the layout with more files."""
        return replace(self, files=(*self.files, *files))

    def others_in(self, folder: Path) -> list[str]:
        """Return what a folder holds that is not of this layout, sorted; all of it where the marker is missing.

        OSError if the folder cannot be read.
        """
        entries = sorted(folder.iterdir())
        if self.marker is not None and not (folder / self.marker).is_file():
            return [entry.name for entry in entries]
        return [name for entry in entries for name in self._others_at(entry)]

    def _others_at(self, entry: Path) -> list[str]:
        """The entry, or the parts of it, that are not of this layout."""
        if entry.is_symlink() or not entry.is_dir():
            known = entry.is_file() and not entry.is_symlink()
            return [] if known and _first_fit(entry.name, self.files) else [entry.name]
        pattern = _first_fit(entry.name, self.folders)
        if pattern is None:
            return [entry.name]
        inner = self.folders[pattern]
        if inner.marker is not None and not (entry / inner.marker).is_file():
            return [entry.name]
        return [f"{entry.name}/{name}" for name in inner.others_in(entry)]


def _first_fit(name: str, patterns: Sequence[str] | Mapping[str, object]) -> str | None:
    return next((pattern for pattern in patterns if fnmatchcase(name, pattern)), None)


def _with_page(marker: str, *files: str, folders: Mapping[str, FolderLayout] | None = None) -> FolderLayout:
    return FolderLayout((marker, *files, "report.html"), {"charts": CHARTS, **(folders or {})}, marker)


CHARTS = FolderLayout(("*.svg", "*.png", "*.csv"))
RECORD = _with_page(
    "run.json",
    *("jobs.parquet", "allocations.parquet", "decisions.parquet", "reasons.parquet"),
    *("summary.json", "snapshot.json"),
)
"""Of `muster simulate`, with what `muster report` adds."""
EXPORT = RECORD.also("trace.csv", "cluster.toml")
COMPARISON = _with_page("comparison.json", "comparison.csv", "comparison.md", folders={"*": RECORD})
CAPACITY = _with_page("capacity.json", "capacity.csv", "capacity.md")
ADVICE = FolderLayout(("advice.json", "advice.csv", "advice.md", "report.html"), marker="advice.json")
"""The page of each finding, and what Slurm said, come on top."""
SLURM_MONTH = FolderLayout(("sacct.txt", "scontrol.txt"), marker="scontrol.txt")
