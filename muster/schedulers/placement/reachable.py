"""The places that a gang's own nodes have: what it may wait for goes by these, and not by those of other nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muster.cluster.distinct_rows import distinct_rows
from muster.cluster.ledger_arrays import GPU, MICRO, Bools, Ints, NodeArray
from muster.speed.network.forms import EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK, Forms

LEAST_SHARE = 0.05
"""Share of its best speed below which a gang rather waits."""


def within_reach(
    lines: tuple[Ints, Forms],
    gpus: Ints,
    requested_per_gpu: Ints,
    constraint: Ints,
    node_allowed: Bools,
    nodes: NodeArray,
    least: float = LEAST_SHARE,
) -> tuple[Ints, Forms]:
    """Return the forms of gangs, by position, those that could wait for ever with the best of their own nodes first.

    These are gangs to which the nodes that they may use offer less than `least` of the best speed, also while the
    cluster is empty: by what their owners request, or as other nodes alone have the faster places.
    """
    line, forms = lines
    slow = np.flatnonzero((forms.share_anywhere[line] < least) & (gpus > 1))
    slow = slow[(constraint[slow] > 0) | requested_per_gpu[slow].any(axis=1)]
    if not len(slow):
        return lines
    asks = np.column_stack([line[slow], gpus[slow], constraint[slow], requested_per_gpu[slow]])
    distinct, kind = distinct_rows(asks)
    kinds, speeds, of = [forms.kinds], [forms.speeds], distinct[:, 0].copy()
    for at, (own, wanted, allowed, *need) in enumerate(distinct.tolist()):
        usable = _usable_gpus(nodes, need) * node_allowed[allowed]
        first = next(
            nth for nth, form in enumerate(forms.kinds[own]) if _has_place(form, wanted, usable, nodes)
        )
        if forms.speeds[own, first] >= least * forms.speeds[own, 0]:
            continue
        ahead = np.arange(len(forms.kinds[own])) + first < len(forms.kinds[own])
        of[at] = sum(map(len, kinds))
        kinds.append(np.where(ahead[:, None], np.roll(forms.kinds[own], -first, axis=0), -1)[None])
        speeds.append(np.where(ahead, np.roll(forms.speeds[own], -first), 0.0)[None])
    line = line.copy()
    line[slow] = of[kind]
    return line, Forms(np.concatenate(kinds), np.concatenate(speeds))


def _usable_gpus(nodes: NodeArray, need: Sequence[int]) -> Ints:
    """Return for how many GPUs of each empty node there is what is requested beside each."""
    usable: Ints = nodes["capacity"][:, GPU] // MICRO
    for resource, wanted in enumerate(need):
        if wanted > 0 and resource != GPU:
            usable = np.minimum(usable, nodes["capacity"][:, resource] // wanted)
    return usable


def _has_place(form: Ints, gpus: int, usable: Ints, nodes: NodeArray) -> bool:
    """Whether empty nodes with so many usable GPUs have a place of a form; the last one is wherever there are GPUs."""
    kind, machines, racks = form.tolist()
    if kind == IN_ISLAND:
        return bool((np.minimum(usable, nodes["island"]) >= gpus).any())
    if kind == IN_MACHINE:
        return bool((usable >= gpus).any())
    if kind == EVENLY:
        in_racks = np.bincount(nodes["rack"], usable >= gpus // machines)
        return bool((in_racks >= machines // racks).sum() >= racks)
    return kind != IN_RACK or bool((np.bincount(nodes["rack"], usable) >= gpus).any())
