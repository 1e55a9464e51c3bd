"""The places that a gang's own nodes have: what it waits for goes by these, and not by those of other nodes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from muster.cluster.distinct_rows import distinct_rows
from muster.cluster.ledger_arrays import GPU, MICRO, Bools, Ints, NodeArray
from muster.speed.network.forms import EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK, Forms

LEAST_SHARE = 0.05
"""Share of its best speed below which a gang rather waits."""
_AS_FAST = 0.99
_KEPT = 4096
"""Answers that are kept: nodes and gangs are the same from decision to decision."""


class _Nodes(NamedTuple):
    """Empty nodes, as bytes that are the same for the same nodes."""

    usable: bytes
    island: bytes
    rack: bytes


def within_reach(
    lines: tuple[Ints, Forms],
    gpus: Ints,
    requested_per_gpu: Ints,
    constraint: Ints,
    node_allowed: Bools,
    nodes: NodeArray,
    least: float = LEAST_SHARE,
) -> tuple[Ints, Forms]:
    """Return the forms of gangs, by position, with the best of their own nodes first where others have faster ones.

    Those that may use some nodes only go by the places of these. What owners request beside GPUs counts where some
    place has less than `least` of the best speed: a gang could wait for a better one for ever.
    """
    line, forms = lines
    share = forms.share_anywhere[line]
    may_wait = (share < least) & requested_per_gpu.any(axis=1)
    slow = np.flatnonzero((gpus > 1) & (may_wait | ((constraint > 0) & (share < _AS_FAST))))
    if not len(slow):
        return lines
    needs = requested_per_gpu[slow] * may_wait[slow, None]
    distinct, kind = distinct_rows(np.column_stack([line[slow], gpus[slow], constraint[slow], needs]))
    kinds, speeds, of = [forms.kinds], [forms.speeds], distinct[:, 0].copy()
    island, rack = (nodes[name].astype(np.int64).tobytes() for name in ("island", "rack"))
    for at, (own, wanted, allowed, *need) in enumerate(distinct.tolist()):
        usable = _usable_gpus(nodes, np.array(need)) * node_allowed[allowed]
        first = _first_form(forms.kinds[own].tobytes(), wanted, _Nodes(usable.tobytes(), island, rack))
        if forms.speeds[own, first] >= _AS_FAST * forms.speeds[own, 0]:
            continue
        of[at] = sum(map(len, kinds))
        left = len(forms.speeds[own]) - first
        kinds.append(np.full_like(forms.kinds[:1], -1))
        speeds.append(np.zeros_like(forms.speeds[:1]))
        kinds[-1][0, :left], speeds[-1][0, :left] = forms.kinds[own, first:], forms.speeds[own, first:]
    line = line.copy()
    line[slow] = of[kind]
    return line, Forms(np.concatenate(kinds), np.concatenate(speeds))


def _usable_gpus(nodes: NodeArray, need: Ints) -> Ints:
    """Return for how many GPUs of each empty node there is what is requested beside each."""
    usable: Ints = nodes["capacity"][:, GPU] // MICRO
    for resource in np.flatnonzero(need > 0).tolist():
        if resource != GPU:
            usable = np.minimum(usable, nodes["capacity"][:, resource] // need[resource])
    return usable


@lru_cache(_KEPT)
def _first_form(kinds: bytes, gpus: int, nodes: _Nodes) -> int:
    """Return the number of the first form of which empty nodes have a place; the last is wherever there are GPUs."""
    usable, island, rack = (np.frombuffer(each, np.int64) for each in nodes)
    forms = np.frombuffer(kinds, np.int64).reshape(-1, 3).tolist()
    return next(nth for nth, form in enumerate(forms) if _has_place(form, gpus, usable, island, rack))


def _has_place(form: list[int], gpus: int, usable: Ints, island: Ints, rack: Ints) -> bool:
    """Return whether empty nodes with so many usable GPUs have a place of a form."""
    kind, machines, racks = form
    if kind == IN_ISLAND:
        return bool((np.minimum(usable, island) >= gpus).any())
    if kind == IN_MACHINE:
        return bool((usable >= gpus).any())
    if kind == EVENLY:
        in_racks = np.bincount(rack, usable >= gpus // machines)
        return bool((in_racks >= machines // racks).sum() >= racks)
    return kind != IN_RACK or bool((np.bincount(rack, usable) >= gpus).any())
