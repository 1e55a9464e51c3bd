"""Notes of several runs: each once, with the runs that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.formatting import enumerated

_OF_ONE = "this scheduler ignores"
"""Words of a note that mean the scheduler of its run."""


def notes_by_run(names: Sequence[str], notes: Iterable[Sequence[str]]) -> list[str]:
    """Each distinct note, as it is where all runs have it, else with the names of those that do."""
    having: dict[str, list[str]] = {}
    for name, own in zip(names, notes, strict=True):
        for note in dict.fromkeys(own):
            having.setdefault(note, []).append(name)
    return [note if len(those) == len(names) else _about(note, those) for note, those in having.items()]


def _about(note: str, names: Sequence[str]) -> str:
    """A note with the runs that it is about: as the subject of what their schedulers ignore, else before it."""
    who = enumerated(names)
    if _OF_ONE in note:
        return note.replace(_OF_ONE, f"{who} {'ignores' if len(names) == 1 else 'ignore'}")
    return f"{who}: {note}"
