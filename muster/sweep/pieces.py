"""Pieces of work that are done once: each leaves its result in a file named after all that it depends on.

Whatever ends the process, at whatever moment, loses only the pieces that were running: a result appears whole
or not at all, and the next start finds it. The name covers the inputs and the program itself, so that results
of another version are never taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import muster
from muster.files import write_aside
from muster.parallel import run_all
from muster.problems import InputError, Problem

FOLDER = "cells"
BATCHES_A_WORKER = 4
"""So many at least, where there are pieces enough: the last worker is not long alone."""
LARGEST_BATCH = 8
"""Pieces that share one start of a process, some 0.7 s."""

_NOT_IN_A_RESULT = ("cli", "reproduce")
"""Rooms that ask for pieces or show them; a kind of piece that is defined there is covered by its own file."""


class Piece(Protocol):
    """Something to compute; it must be picklable, and the same inputs must give the same result."""

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on, ready for JSON."""
        ...

    def run(self) -> Mapping[str, Any]:
        """The result, ready for JSON."""
        ...


def name_of(piece: Piece) -> str:
    """The piece's name: a hash of its kind with the file that defines it, its inputs and the program."""
    kind = type(piece)
    inputs = {
        "kind": f"{kind.__module__}.{kind.__qualname__}",
        "defined": _source_digest(kind.__module__),
        "program": program_digest(),
        "inputs": piece.inputs(),
    }
    return hashlib.sha256(_json(inputs).encode()).hexdigest()[:24]


@cache
def program_digest() -> str:
    """A hash of everything in the package that can change a result."""
    package = Path(muster.__file__).parent
    digest = hashlib.sha256(muster.__version__.encode())
    for path in sorted(package.rglob("*")):
        way = path.relative_to(package)
        if path.suffix in (".py", ".toml") and way.parts[0] not in _NOT_IN_A_RESULT:
            digest.update(f"{way.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def check_program(digest: str, place: str) -> None:
    """InputError unless this process runs the program with this digest; `place` is the `--on` of the sweep."""
    if program_digest() != digest:
        what = "a node of this cluster has another version of Muster; allowed: the same on all nodes"
        raise InputError(Problem("--on", what, found=place))


@cache
def _source_digest(module: str) -> str:
    """A hash of the file of a module."""
    return hashlib.sha256(Path(str(sys.modules[module].__file__)).read_bytes()).hexdigest()


def find_done(pieces: Sequence[Piece], folder: Path) -> dict[str, Mapping[str, Any]]:
    """The results that lie in a folder, by name; a damaged file counts as none."""
    found = {}
    for name in map(name_of, pieces):
        try:
            content = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and "result" in content:
            found[name] = content["result"]
    return found


def run_pieces(
    pieces: Sequence[Piece],
    folder: Path,
    workers: int,
    on_done: Callable[[int], None],
    run: RunBatches | None = None,
) -> list[Mapping[str, Any]]:
    """The results in the order of the pieces; `on_done` hears how many more are finished, those found included.

    `run` runs batches at so many places at a time and reports each piece; by default in processes of this machine.
    """
    done = find_done(pieces, folder)
    names = [name_of(piece) for piece in pieces]
    missing = {name: piece for name, piece in zip(names, pieces, strict=True) if name not in done}
    on_done(len(names) - sum(name in missing for name in names))
    waiting = list(missing.items())
    size = min(LARGEST_BATCH, math.ceil(len(waiting) / (BATCHES_A_WORKER * workers)) or 1)
    batches = {
        str(at): PieceBatch(tuple(waiting[at : at + size]), folder) for at in range(0, len(waiting), size)
    }
    (run or run_all)(batches, workers, lambda _, name: on_done(names.count(name)))
    done = find_done(pieces, folder)
    return [done[name] for name in names]


@dataclass(frozen=True)
class PieceBatch:
    """Some pieces for one process, each with its name."""

    pieces: Sequence[tuple[str, Piece]]
    folder: Path

    def __call__(self, report: Callable[[Any], None]) -> None:
        """Runs them, each result on the disk before the next begins."""
        for name, piece in self.pieces:
            keep(self.folder, name, {"inputs": piece.inputs(), "result": piece.run()})
            report(name)

    def exists(self, name: str) -> bool:
        """Whether the result of a piece is there."""
        return (self.folder / f"{name}.json").exists()

    def remove_damaged(self) -> None:
        """Remove what is there of results that `find_done` has not taken."""
        for name, _ in self.pieces:
            (self.folder / f"{name}.json").unlink(missing_ok=True)


RunBatches: TypeAlias = Callable[[Mapping[str, PieceBatch], int, Callable[[str, Any], None]], object]


def keep(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write the inputs and the result of a piece; they are on disk when this returns."""
    with write_aside(folder / f"{name}.json") as aside:
        aside.write_text(_json(content), encoding="utf-8")


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False)
