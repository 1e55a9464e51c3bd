"""Draws mutations by a seed, and leaves out those that cannot change what the program does."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from tests.mutation.mutations import Mutation

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
_HEAVY = tuple(
    f"muster/{room}/" for room in ("schedulers", "runtime", "simulation", "cluster", "speed", "service")
)


def weight(path: str) -> float:
    """Returns how often a line of this file is drawn: twice where decisions and books are made."""
    return 2.0 if path.startswith(_HEAVY) else 1.0


def sample(mutations: Iterable[Mutation], seed: int, count: int) -> list[Mutation]:
    """Draws at most one mutation a line, lines by their weight.

    A kind of mutation is drawn before a mutation of this kind, as most lines have numbers. Each line has a random
    number of its own (Efraimidis and Spirakis 2006), so that an edit of the code changes only the draws of the
    lines that it touches.
    """
    lines = defaultdict(list)
    for mutation in mutations:
        lines[mutation.place].append(mutation)
    order = sorted(
        lines.items(), key=lambda line: -math.log(_chance(seed, line[0])) / weight(line[1][0].path)
    )
    return [
        min(choices, key=lambda one: (_chance(seed, f"{one.place}|{one.kind}"), _chance(seed, one.key)))
        for _, choices in order[:count]
    ]


def _chance(seed: int, name: str) -> float:
    """Returns a number above 0 and below 1 that depends on seed and name only."""
    digest = hashlib.sha256(f"{seed}|{name}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") + 1) / (2**64 + 2)


def listed_equivalents(path: Path = EQUIVALENT) -> dict[tuple[str, str, str], str]:
    """Returns the reasons of the mutations that change nothing, by file, line before and line after."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("mutation", [])
    return {(one["path"], one["before"].strip(), one["after"].strip()): one["reason"] for one in entries}


def without_equivalents(
    mutations: Iterable[Mutation], listed: Collection[tuple[str, str, str]]
) -> list[Mutation]:
    """Returns the mutations that are not listed as equivalent."""
    return [one for one in mutations if (one.path, one.before.strip(), one.after.strip()) not in listed]
