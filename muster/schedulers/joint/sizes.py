"""How many GPUs each elastic job should have, and of which type: the most worth that the cluster's GPUs give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from muster.cluster.distinct_rows import distinct_rows
from muster.cluster.held_rows import held_rows
from muster.cluster.ledger_arrays import GPU, MICRO, WHOLE, Bools, Floats, Ints
from muster.cluster.portable_math import power
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import Gangs, forms_of, places_differ
from muster.schedulers.contract import Snapshot
from muster.schedulers.gpu_limits import GpuLimits
from muster.schedulers.interruption import HORIZON_SECONDS
from muster.schedulers.joint.assured import worth_of_assured
from muster.schedulers.joint.modelled_speeds import (
    ANY_TYPE,
    TypedSizes,
    best_batches,
    forms_with,
    is_type,
    modelled_speeds,
    of_type,
)
from muster.schedulers.joint.preferred_nodes import with_preferred_nodes
from muster.schedulers.joint.remembered import NOTHING, Remembered
from muster.schedulers.joint.room_by_type import room_by_type
from muster.schedulers.joint.size_choice import SizeOptions, best_sizes
from muster.schedulers.placement.reachable import within_reach
from muster.speed.network.forms import Forms

_AT_MOST = 1.1
"""What an elastic job counts that is infinitely fast, where waiting counts 0 and its least size 0.1: as Sia has it."""
_ALL_SIZES = 16
"""With bounds closer than this, a job may have every size between them."""
_ALIKE = 1e-9


def learns_as_it_grows(snapshot: Snapshot) -> Bools:
    """Which running elastic jobs are believed to run on twice the GPUs that they hold, and not yet on four times."""
    jobs, speeds, nodes = snapshot.jobs, snapshot.size_speeds, snapshot.ledger.books.nodes
    grows = np.zeros(len(jobs), np.bool_)
    if speeds is None:
        return grows
    held = np.rint(jobs.held_gpus).astype(np.int64)
    rows = np.flatnonzero(jobs.elastic & jobs.running & (4 * held <= jobs.max_gpus))
    machine = nodes[int(np.argmax(nodes["gpus"]))]
    gpu_type = snapshot.cluster.gpu_types[int(machine["gpu_type"])]
    doubled, again = (
        speeds.seconds_per_iteration(jobs.index[rows], gpus, -(-gpus // int(machine["gpus"])), gpu_type)
        for gpus in (2 * held[rows], 4 * held[rows])
    )
    grows[rows] = np.isfinite(doubled) & np.isinf(again)
    return grows


def gains_from_type(snapshot: Snapshot) -> Bools:
    """Which jobs may have more than one type of GPU and are not known to be as fast on each of them."""
    jobs, names = snapshot.jobs, snapshot.cluster.gpu_types
    differs = [
        snapshot.size_speeds is not None
        or (model is not None and len({model.speed_on(name) for name in names} - {None}) > 1)
        for model in snapshot.table.models
    ]
    gains: Bools = np.array(differs)[jobs.model]
    if gains.any():
        gains &= has_types(snapshot) & (jobs.gpu_milli == WHOLE) & (jobs.gpus > 0)
    return gains


def chooses_type(snapshot: Snapshot) -> Bools:
    """Which jobs may have several types of GPU, and it may count which of them they have."""
    may_count = _types_may_count(snapshot)
    return may_count & has_types(snapshot) if may_count.any() else may_count


def _types_may_count(snapshot: Snapshot) -> Bools:
    """Which jobs may be faster on some type of GPU, or in some place that has one.

    Those may whose model says what they need of CPUs and memory, of which nodes of each type have their own,
    or states a speed on some type, or of which speeds are learned; and where places differ for gangs that no machine
    holds.
    """
    jobs = snapshot.jobs
    states_some = np.array(_states_speed(snapshot, np.arange(len(snapshot.cluster.gpu_types))).any(axis=0))
    may_count: Bools = states_some[jobs.model] | ~snapshot.resource_profiles.says_nothing_of(jobs.model)
    may_count |= snapshot.size_speeds is not None
    if places_differ(snapshot, jobs.gpus):
        most = np.where(jobs.elastic, jobs.max_gpus, jobs.gpus)
        may_count |= most > snapshot.ledger.books.nodes["gpus"].max()
    return may_count


def has_types(snapshot: Snapshot) -> Bools:
    """Which jobs may have more than one type of GPU by what their owners say, where it counts for any job."""
    nodes, types = snapshot.ledger.books.nodes["gpu_type"], types_of(snapshot)
    if len(types) == 1:
        return np.zeros(len(snapshot.jobs), np.bool_)
    allowed = [(snapshot.table.node_allowed & (nodes == each)).any(axis=1) for each in types.tolist()]
    several: Bools = (np.sum(allowed, axis=0) > 1)[snapshot.jobs.constraint]
    return several


def types_of(snapshot: Snapshot) -> Ints:
    """Return the types of GPU between which jobs choose; `ANY_TYPE` alone where there is one, or none counts."""
    count, says_nothing_of = len(snapshot.cluster.gpu_types), snapshot.resource_profiles.says_nothing_of
    # Mostly some model says what it needs: a look at all is seldom necessary.
    if count > 1 and (not says_nothing_of(snapshot.jobs.model).all() or _types_may_count(snapshot).any()):
        return np.arange(count)
    return np.array([ANY_TYPE])


def present_sizes(given: AllocationInput) -> TypedSizes:
    """What running jobs hold and on which type, the elastic ones; what all others ask for, on any type.

    A gang on several types is on any.
    """
    jobs, books, gpus = given.snapshot.jobs, given.snapshot.ledger.books, given.snapshot.jobs.gpus
    resized = np.flatnonzero(jobs.elastic & jobs.running & (jobs.held_gpus > 0))
    gpus[resized] = np.rint(jobs.held_gpus[resized]).astype(np.int64)
    types = np.full(len(jobs), ANY_TYPE)
    if len(types_of(given.snapshot)) > 1:
        for nth, (here, row) in enumerate(held_rows(books, jobs.index)):
            kind = books.nodes["gpu_type"][books.rows["node"][row]]
            types[here] = np.where((types[here] == kind) | (nth == 0), kind, ANY_TYPE)
    return TypedSizes(np.arange(len(jobs)), gpus, types)


def keeps_size(given: AllocationInput, gangs: Gangs) -> Bools:
    """Which running jobs hold as many GPUs as here, of a type that they may have here."""
    jobs, books = given.snapshot.jobs, given.snapshot.ledger.books
    keeps: Bools = jobs.held_gpus == gangs.gpus
    if gangs.node_allowed is not given.gangs.node_allowed:
        heads = books.heads[jobs.index]
        nodes = books.rows["node"][np.maximum(heads, 0)]
        keeps &= (heads >= 0) & gangs.node_allowed[gangs.constraint, nodes]
    return keeps


def with_sizes(given: AllocationInput, gangs: Gangs, sizes: TypedSizes) -> Gangs:
    """Return the jobs with these numbers of GPUs, each on its type, and with choices that may be below their share.

    Where speeds by size are known otherwise than from models, the weights bring them in.
    """
    jobs, gpus = given.snapshot.jobs, sizes.gpus
    profiles, batches = given.snapshot.resource_profiles.below_share, best_batches(given, sizes)
    records = profiles.sized(jobs.model, batches.whole, gpus)
    classes, demands = profiles.of(records, gpus, jobs.requested_per_gpu)
    sized = gangs._replace(
        gpus=gpus,
        model=records,
        classes=classes,
        demands=demands,
        models=profiles.models,
        weight=gangs.weight * _known_factor(given, sizes, np.ones(len(gpus))) * batches.gain,
        forms=forms_with(given.snapshot, gpus, batches.whole),
    )
    any_type = (sizes.gpu_type == ANY_TYPE).all()
    typed = sized if any_type else _on_types(given, sized, sizes.gpu_type)
    return _within_reach(given, with_preferred_nodes(typed, given.ranked))


def _within_reach(given: AllocationInput, gangs: Gangs) -> Gangs:
    """Return the jobs with forms of places by their own nodes, where other nodes have faster ones."""
    forms, snapshot = gangs.forms, given.snapshot
    if not len(forms.line) or not (snapshot.table.some_request or gangs.constraint.any()):
        return gangs
    line, own = within_reach(
        (forms.line, Forms(forms.kinds, forms.speeds)),
        gangs.gpus,
        snapshot.jobs.requested_per_gpu,
        gangs.constraint,
        gangs.node_allowed,
        snapshot.ledger.books.nodes,
    )
    return gangs._replace(
        forms=forms._replace(line=line, kinds=own.kinds, speeds=own.speeds, share_anywhere=own.share_anywhere)
    )


def _on_types(given: AllocationInput, gangs: Gangs, gpu_type: Ints) -> Gangs:
    """Return the jobs with nodes of these types alone allowed, beside what their owners say.

    Constraint 0 is that of a job which may be on any node, as before, also where there is no such job.
    """
    nodes = given.snapshot.ledger.books.nodes["gpu_type"]
    pairs = np.column_stack([np.append(gangs.constraint, 0), np.append(gpu_type, ANY_TYPE)])
    distinct, constraint = distinct_rows(pairs)
    owner, wanted = distinct.T
    of_type = (wanted[:, None] == ANY_TYPE) | (wanted[:, None] == nodes)
    allowed = np.ascontiguousarray(gangs.node_allowed[owner] & of_type)
    return gangs._replace(constraint=constraint[:-1], node_allowed=allowed)


def options_of(given: AllocationInput, weight: Floats) -> SizeOptions:
    """Return the sizes of the ranked jobs that may be placed; a job that is not elastic has one on each type."""
    jobs = given.snapshot.jobs
    sizes = _every_size(given, given.ranked[given.opened.movable[given.ranked]])
    now = present_sizes(given).rows(sizes.at)
    moves = (sizes.gpu_type != now.gpu_type) & (sizes.gpu_type != ANY_TYPE) & (now.gpu_type != ANY_TYPE)
    changed = jobs.running[sizes.at] & ((sizes.gpus != now.gpus) | moves)
    known = _known_factor(given, sizes, 1 - _lost_by_resize(given)[sizes.at] * changed)
    runs = known > 0
    sizes, known = sizes.rows(runs), known[runs]
    worth = weight[sizes.at] * modelled_speeds(given, sizes) * known
    return SizeOptions(sizes, worth_of_assured(worth, sizes.at, sizes.gpus, given.proposal.assured))


def sizes_for_all(
    given: AllocationInput,
    options: SizeOptions,
    limits: Sequence[GpuLimits],
    shares: Sequence[GpuLimits],
) -> tuple[TypedSizes, Bools]:
    """Return the GPUs of each job, those of most worth for what there is; any type where all are alike to it.

    With which jobs are wanted. Those for which no size is worth its GPUs are not; they are tried with their least, on
    the type of which most is left. Under an order that stops no job, running ones are wanted in any case.
    """
    types, sizes = types_of(given.snapshot), options.sizes
    left = _gpus_left(given, types)
    goes_on = given.snapshot.jobs.running[sizes.at] & (not given.stops_jobs)
    known: Remembered = given.proposal.remembered or NOTHING
    counted = options.with_first(goes_on) if goes_on.any() else options
    taken, prices = best_sizes(counted, types, left, limits, shares, known.prices)
    if prices is not None:
        given.proposal.remembered = replace(known, prices=prices)
    at, gpus, gpu_type = present_sizes(given)
    left = left - _used(sizes.rows(taken), types)
    if len(types) > 1:
        gpu_type = np.full(len(at), ANY_TYPE)
        roomiest = np.argsort(left[np.searchsorted(types, sizes.gpu_type)], kind="stable")
        gpu_type[sizes.at[roomiest]] = sizes.gpu_type[roomiest]
    gpus[sizes.at[::-1]] = sizes.gpus[::-1]  # the least of each job
    gpus[sizes.at[taken]], gpu_type[sizes.at[taken]] = sizes.gpus[taken], sizes.gpu_type[taken]
    if len(types) > 1:
        gpu_type[_is_alike_everywhere(given, options, gpus)] = ANY_TYPE
    wanted = np.ones(len(at), np.bool_)
    wanted[sizes.at] = False
    wanted[sizes.at[taken]] = True
    return TypedSizes(at, gpus, gpu_type), wanted


def _gpus_left(given: AllocationInput, types: Ints) -> Ints:
    """Return the whole GPUs of each type that are not held by running jobs which keep what they have."""
    of_node, left = given.snapshot.ledger.books.nodes["gpu_type"], np.maximum(given.opened.free[:, 0], 0)
    return np.array([int(left[is_type(of_node, each)].sum()) for each in types.tolist()])


def _used(sizes: TypedSizes, types: Ints) -> Ints:
    """Return the GPUs of each type in all rows."""
    used = np.bincount(np.searchsorted(types, sizes.gpu_type), sizes.gpus, len(types))
    return np.rint(used).astype(np.int64)


def _is_alike_everywhere(given: AllocationInput, options: SizeOptions, gpus: Ints) -> Bools:
    """Which jobs are worth as much on each type that they may have; where places count, of those that fit on a machine.

    A gang that is as fast on each type has its GPUs where they are free, of several types as well.
    """
    sizes = options.sizes
    here = sizes.gpus == gpus[sizes.at]
    lowest, highest = np.full(len(gpus), np.inf), np.zeros(len(gpus))
    np.minimum.at(lowest, sizes.at[here], options.worth[here])
    np.maximum.at(highest, sizes.at[here], options.worth[here])
    types = np.bincount(sizes.at[here], minlength=len(gpus))
    alike: Bools = (highest - lowest <= _ALIKE * highest) & (types == len(types_of(given.snapshot)))
    if given.snapshot.size_speeds is not None or len(forms_of(given.snapshot, gpus).line):
        alike &= gpus <= given.gangs.kinds["gpus"].max()
    return alike


def _lost_by_resize(given: AllocationInput) -> Floats:
    """Return the part of its work that a restart costs each job, if it goes on for as long as it has been here.

    A job of unknown length is as likely to end before as after twice its age. One that learns its speed changes often:
    it goes on for its age over the number of its interruptions.
    """
    jobs = given.snapshot.jobs
    ahead = given.snapshot.now - jobs.arrival
    if given.snapshot.size_speeds is not None:
        ahead = ahead / np.maximum(jobs.interruptions, 1)
    cost = np.where(jobs.running, jobs.interruption_cost, 0.0)
    lost: Floats = cost / np.maximum(cost + np.minimum(ahead, HORIZON_SECONDS), 1e-9)
    return lost


def _returns(speed_up: Floats) -> Floats:
    """Return what speeding a job up so many times counts, as a multiple of that many; what is learned may be wrong.

    It counts `_AT_MOST` less one over its root: the step from one GPU to two counts most, and the more a job has,
    the less more of them count. A job that runs at its least size counts 1.
    """
    faster = np.maximum(speed_up, 1e-9)
    counts: Floats = (_AT_MOST - power(faster, -0.5)) / (_AT_MOST - 1) / faster
    return np.where(speed_up >= 1, counts, 1.0)


def _known_factor(given: AllocationInput, sizes: TypedSizes, kept: Floats) -> Floats:
    """Return what jobs are known to count on so many GPUs, by what their models say of that; 0 where they do not run.

    They count what `_returns` says of the part of their speed that each keeps, relative to the least size on which
    each runs, on the type where it is slowest. Where nothing is known they count that part.
    """
    factor = kept.copy()
    if given.snapshot.size_speeds is None:
        return factor
    jobs, place = np.unique(sizes.at, return_inverse=True)
    every = _every_size(given, jobs)
    seconds = known_seconds(given, every)
    runs = np.flatnonzero(np.isfinite(seconds))
    first = runs[np.lexsort([-seconds[runs], every.gpus[runs], every.at[runs]])]
    _, least_of = np.unique(every.at[first], return_index=True)
    least = first[least_of]
    row_of = np.full(len(jobs), -1)
    row_of[np.searchsorted(jobs, every.at[least])] = least
    row, now = row_of[place.reshape(-1)], known_seconds(given, sizes)
    factor[(row >= 0) | ~np.isnan(now)] = 0.0
    here = np.flatnonzero((row >= 0) & np.isfinite(now))
    slowest = every.rows(row[here])
    modelled = modelled_speeds(given, slowest) / modelled_speeds(given, sizes.rows(here))
    faster = kept[here] * seconds[row[here]] / now[here]
    factor[here] = _returns(faster) * faster * modelled
    return factor


def _every_size(given: AllocationInput, at: Ints) -> TypedSizes:
    """Return all sizes that these jobs may have, ascending, on each type that their models state.

    On any type where none of those has enough GPUs, or there is one type.
    """
    jobs, now = given.snapshot.jobs, present_sizes(given).rows(at)
    types = np.unique(np.append(ANY_TYPE, types_of(given.snapshot)))
    elastic, asked = jobs.elastic[at], jobs.gpus[at]
    few = np.where(elastic, jobs.min_gpus[at], asked)
    books, asks = given.snapshot.ledger.books, jobs.requested_per_gpu[at]
    room = room_by_type(books.nodes, types, asks, given.gangs.node_allowed, given.gangs.constraint[at])
    many = np.maximum(few, np.minimum(np.where(elastic, jobs.max_gpus[at], asked), room[0]))
    stated = _stated_types(given, types)[:, jobs.model[at]] & (room >= few)
    stated[0] = ~stated.any(axis=0)
    one, of = np.nonzero(stated.T)
    top = np.minimum(many[one], np.maximum(few[one], room[of, one]))
    keeps = is_type(now.gpu_type[one], types[of]) & (now.gpus[one] <= top)
    own = np.where(keeps, now.gpus[one], few[one])
    largest = _gpus_of_largest(given, types)[of]
    row, gpus = _listed_sizes(
        np.column_stack([few[one], top, own, largest, many[one] - few[one] < _ALL_SIZES])
    )
    if len(types) > 1:
        ascending = np.lexsort([gpus, one[row]])
        row, gpus = row[ascending], gpus[ascending]
    found = TypedSizes(at[one[row]], gpus, types[of[row]])
    return found.rows(_have_even_places(given, found)) if given.gangs.even else found


def _listed_sizes(asks: Ints) -> tuple[Ints, Ints]:
    """Return the sizes for each row of bounds, the size held, the largest machine and whether all sizes count.

    With the number of the row of each.
    """
    distinct, kind = distinct_rows(asks)
    choices = [
        list(range(few, top + 1)) if every else _sizes(few, top, own, largest)
        for few, top, own, largest, every in distinct.tolist()
    ]
    counts = np.array([len(each) for each in choices], np.int64)[kind]
    row = np.repeat(np.arange(len(asks)), counts)
    first = np.cumsum([0, *map(len, choices)])[kind]
    nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    every = np.array([size for each in choices for size in each], np.int64)
    return row, every[first[row] + nth]


def _gpus_of_largest(given: AllocationInput, types: Ints) -> Ints:
    """Return the GPUs of the largest machine of each type."""
    per_node = given.snapshot.ledger.books.nodes["gpus"]
    return np.array([int(per_node[of_type(given, each)].max(initial=0)) for each in types.tolist()])


def _have_even_places(given: AllocationInput, sizes: TypedSizes) -> Bools:
    """Which sizes have a place in the empty cluster with the same number of GPUs on each of its nodes."""
    nodes, gangs = given.snapshot.ledger.books.nodes, given.gangs
    usable, requested = nodes["capacity"] - nodes["unavailable"], given.snapshot.jobs.requested_per_gpu
    asks = np.column_stack([requested[sizes.at], gangs.constraint[sizes.at], sizes.gpu_type, sizes.gpus])
    distinct, kind = distinct_rows(asks)
    possible = np.zeros(len(distinct), np.bool_)
    for row, ask in enumerate(distinct):
        need, (constraint, gpu_type, gpus) = ask[:-3], ask[-3:].tolist()
        per_gpu = np.where(np.arange(len(need)) == GPU, MICRO, need)
        wanted = per_gpu > 0
        fit = (usable[:, wanted] // per_gpu[wanted]).min(axis=1)
        fit = fit[is_type(nodes["gpu_type"], gpu_type) & gangs.node_allowed[constraint]]
        parts = [part for part in range(1, min(gpus, len(fit)) + 1) if gpus % part == 0]
        possible[row] = any((fit >= gpus // part).sum() >= part for part in parts)
    return possible[kind]


def _stated_types(given: AllocationInput, types: Ints) -> Bools:
    """Return by type, then by model, whether the model states its speed there, or for none; not for `ANY_TYPE`."""
    stated = _states_speed(given.snapshot, types)
    stated |= ~stated.any(axis=0) & (types != ANY_TYPE)[:, None]
    return stated


def _states_speed(snapshot: Snapshot, types: Ints) -> Bools:
    """Return by type, then by model, whether the model states its speed there."""
    names = snapshot.cluster.gpu_types
    return np.array(
        [
            [
                each != ANY_TYPE and model is not None and model.speed_on(names[each]) is not None
                for model in snapshot.table.models
            ]
            for each in types.tolist()
        ]
    )


def known_seconds(given: AllocationInput, sizes: TypedSizes, machines: Ints | None = None) -> Floats:
    """Return the seconds of an iteration on so many machines of the type; None: on as few as hold so many GPUs.

    inf where a job does not run, NaN where nothing is known.
    """
    snapshot, every = given.snapshot, given.snapshot.ledger.books.nodes
    assert snapshot.size_speeds is not None
    found = np.full(len(sizes.at), np.nan)
    for each in np.unique(sizes.gpu_type).tolist():
        rows = sizes.gpu_type == each
        machines_of_type = every[of_type(given, each)]
        machine = machines_of_type[int(np.argmax(machines_of_type["gpus"]))]
        gpu_type = snapshot.cluster.gpu_types[int(machine["gpu_type"])]
        gpus, index = sizes.gpus[rows], snapshot.jobs.index[sizes.at[rows]]
        nodes = -(-gpus // int(machine["gpus"]))
        if machines is not None:
            nodes = np.maximum(nodes, machines[rows])
        found[rows] = snapshot.size_speeds.seconds_per_iteration(index, gpus, nodes, gpu_type)
    return np.where(found > 0, found, np.where(np.isnan(found), np.nan, np.inf))


def _sizes(least: int, most: int, present: int, largest: int) -> list[int]:
    """Powers of two, whole machines, the bounds and the present size."""
    between = {2**power for power in range(most.bit_length())} | set(range(largest, most + 1, largest))
    return sorted({least, most, present} | {size for size in between if least <= size <= most})
