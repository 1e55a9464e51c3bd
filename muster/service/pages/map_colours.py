"""The colours of jobs on the map of GPUs, and what each of them means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from muster.service.pages.rendering import COLOURS, colour_class

OTHERS = "others"
"""The class of all that has no colour of its own."""


def keyed_colours(values: Iterable[str]) -> dict[str, str]:
    """The classes of values in the order in which they appear: as many differ as there are colours."""
    distinct = dict.fromkeys(values)
    return {value: colour_class(at) if at < COLOURS else OTHERS for at, value in enumerate(distinct)}


def key_of(colours: Mapping[str, str], *, more: bool) -> list[tuple[str, str]]:
    """The class and the label of each colour; `more`: GPUs of other users are shown besides."""
    own = [(colour, value) for value, colour in colours.items() if colour != OTHERS]
    return [*own, (OTHERS, "others")] if more or len(own) < len(colours) else own


def hashed_colours(nodes: Sequence[Sequence[tuple[int, str | int]]]) -> dict[str | int, str]:
    """The classes of values, where each node has jobs with their values: another one than the usual one of a value
    where that of an older job on one of its nodes is the same.

    On a node with more values than there are colours, some of them are the same.
    """
    near: dict[str | int, set[str | int]] = {}
    for here in nodes:
        for _, value in here:
            near.setdefault(value, set()).update(value for _, value in here)
    found: dict[str | int, str] = {}
    for _, value in sorted((entry for here in nodes for entry in here), key=lambda entry: entry[0]):
        if value not in found:
            found[value] = _free(value, {found[other] for other in near[value] if other in found})
    return found


def _free(value: str | int, taken: set[str]) -> str:
    """The usual class of a value, or the next one that is free."""
    usual = colour_class(value)
    following = (colour_class(int(usual[1:]) - 1 + at) for at in range(COLOURS))
    return next((one for one in following if one not in taken), usual)
