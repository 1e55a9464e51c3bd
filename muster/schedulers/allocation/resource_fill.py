"""One node's CPU, memory and storage given to those of its jobs that gain most, compiled.

Only jobs that have all their GPUs on this node take part. Each has at least its fair choice, so none falls below its
GPU-proportional speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, amount_per_gpu, model_on
from muster.schedulers.allocation.placement_draft import PlacementDraft, fits, set_amounts
from muster.speed.demands import ProfiledDemands
from muster.speed.kernels import micro, speed_at

_EPSILON = 1e-9


class Here(NamedTuple):
    """The jobs that one node is given to, by place."""

    node_part: Ints
    gpus: Ints
    first: Ints
    """The lowest choice of each, the fair one."""
    last: Ints
    """One past its highest."""
    chosen: Ints
    share: Ints
    """The GPU-proportional share of the node, at least 1 of each resource."""


@njit(cache=True)
def fill_all(draft: PlacementDraft, gangs: Gangs) -> None:
    """Give out every node."""
    for node in range(len(draft.free)):
        fill_node(draft, gangs, node)


@njit(cache=True)
def fill_node(draft: PlacementDraft, gangs: Gangs, node: int) -> None:
    """Give out a node: the best rates of gain first, then exchanges of two or more, then the rest in part steps.

    What is there already is kept if it is as good.
    """
    placed_jobs = _alone_here(draft, node)
    if not len(placed_jobs):
        return
    kind = gangs.kind_of_node[node]
    demands = gangs.demands
    before, value = _as_it_is(draft, gangs, kind, placed_jobs)
    here = _at_their_lowest(draft, gangs, kind, placed_jobs)
    reached = -1.0
    if draft.free[node].min() >= 0:
        _climb(draft, demands, node, here)
        while _exchange(draft, demands, node, here) or _make_room(draft, demands, node, here):
            _climb(draft, demands, node, here)
        reached = _part_steps(draft, gangs, node, placed_jobs, kind)
        for i in range(len(placed_jobs)):
            reached += here.gpus[i] * demands.choice_speed[here.chosen[i]]
    if reached < 0 or (reached <= value + _EPSILON and _are_fair(gangs, kind, draft, placed_jobs, before)):
        for i in range(len(placed_jobs)):
            set_amounts(draft, placed_jobs[i], before[i])


@njit(cache=True, forceinline=True)
def _alone_here(draft: PlacementDraft, node: int) -> Ints:
    """Return the node parts here that are all their job has."""
    count = 0
    number = draft.first_here[node]
    while number >= 0:
        node_part = draft.node_parts[number]
        count += draft.first[node_part["at"]] == number and node_part["next"] < 0
        number = node_part["next_here"]
    here = np.empty(count, np.int64)
    count = 0
    number = draft.first_here[node]
    while number >= 0:
        node_part = draft.node_parts[number]
        if draft.first[node_part["at"]] == number and node_part["next"] < 0:
            # In the order of the jobs, so that it makes no difference which came to the node first.
            place = count
            while place > 0 and draft.node_parts[here[place - 1]]["at"] > node_part["at"]:
                here[place] = here[place - 1]
                place -= 1
            here[place] = number
            count += 1
        number = node_part["next_here"]
    return here


@njit(cache=True, forceinline=True)
def per_gpu(draft: PlacementDraft, number: int, amounts: Ints) -> None:
    """Write what a node part has beside each of its GPUs; the GPUs' own entry is not touched."""
    node_part = draft.node_parts[number]
    for resource in range(1, RESOURCE_COUNT):
        amounts[resource] = node_part["amount"][resource] // node_part["gpus"]


@njit(cache=True, forceinline=True)
def _as_it_is(draft: PlacementDraft, gangs: Gangs, kind: int, placed_jobs: Ints) -> tuple[Ints, float]:
    """Return what the node parts have beside each GPU; the speed of all, times GPUs."""
    before = np.empty((len(placed_jobs), RESOURCE_COUNT), np.int64)
    value = 0.0
    for i in range(len(placed_jobs)):
        node_part = draft.node_parts[placed_jobs[i]]
        per_gpu(draft, placed_jobs[i], before[i])
        value += node_part["gpus"] * speed_at(gangs.models, model_on(gangs, node_part["at"], kind), before[i])
    return before, value


@njit(cache=True, forceinline=True)
def _at_their_lowest(draft: PlacementDraft, gangs: Gangs, kind: int, placed_jobs: Ints) -> Here:
    """Give each its lowest choice."""
    count = len(placed_jobs)
    gpus, first, last = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):
        node_part = draft.node_parts[placed_jobs[i]]
        pair = gangs.classes[node_part["at"]] * len(gangs.kinds) + kind
        gpus[i] = node_part["gpus"]
        first[i], last[i] = gangs.demands.first_choice[pair], gangs.demands.first_choice[pair + 1]
        set_amounts(draft, placed_jobs[i], gangs.demands.choice[first[i]])
    share = amount_per_gpu(gangs.kinds, kind)
    return Here(placed_jobs, gpus, first, last, first.copy(), share)


@njit(cache=True)
def meets_requests(draft: PlacementDraft, gangs: Gangs, node: int) -> bool:
    """Return whether every job of a node has at least what it requests."""
    number = draft.first_here[node]
    while number >= 0:
        node_part = draft.node_parts[number]
        for resource in range(1, RESOURCE_COUNT):
            least = node_part["gpus"] * gangs.demands.requested[gangs.classes[node_part["at"]], resource]
            if node_part["amount"][resource] < least:
                return False
        number = node_part["next_here"]
    return True


@njit(cache=True)
def _are_fair(gangs: Gangs, kind: int, draft: PlacementDraft, here: Ints, amounts: Ints) -> bool:
    for i in range(len(here)):
        at = draft.node_parts[here[i]]["at"]
        fair = gangs.demands.fair_speed[gangs.classes[at], kind]
        if speed_at(gangs.models, model_on(gangs, at, kind), amounts[i]) < fair * (1 - _EPSILON):
            return False
        for resource in range(1, RESOURCE_COUNT):
            if amounts[i, resource] < gangs.demands.requested[gangs.classes[at], resource]:
                return False
    return True


@njit(cache=True)
def _climb(draft: PlacementDraft, demands: ProfiledDemands, node: int, here: Here) -> None:
    """While there is room: the step that gains most for what it takes, in GPUs' shares."""
    chosen, free = here.chosen, draft.free[node]
    while True:
        best_i, best_then, best_rate = -1, -1, 0.0
        for i in range(len(chosen)):
            for then in range(chosen[i] + 1, here.last[i]):
                gain = demands.choice_speed[then] - demands.choice_speed[chosen[i]]
                cost = _EPSILON
                short = 0
                for resource in range(1, RESOURCE_COUNT):
                    more = demands.choice[then, resource] - demands.choice[chosen[i], resource]
                    short += here.gpus[i] * more > free[resource]
                    if more > 0:
                        cost += more / here.share[resource]
                if short == 0 and gain / cost > best_rate:
                    best_i, best_then, best_rate = i, then, gain / cost
        if best_i < 0:
            return
        chosen[best_i] = best_then
        set_amounts(draft, here.node_part[best_i], demands.choice[best_then])


@njit(cache=True)
def _exchange(draft: PlacementDraft, demands: ProfiledDemands, node: int, here: Here) -> bool:
    """Step one job up and another down, the pair that gains most; whether there was such a pair."""
    chosen, room = here.chosen, draft.free[node]
    best_gain, up, up_to, down, down_to = _EPSILON, -1, -1, -1, -1
    for i in range(len(chosen)):
        for j in range(len(chosen)):
            if i != j and chosen[j] != here.first[j]:
                gain, then, other = _best_pair(room, demands, here, i, j, best_gain)
                if then >= 0:
                    best_gain, up, up_to, down, down_to = gain, i, then, j, other
    if up < 0:
        return False
    chosen[up], chosen[down] = up_to, down_to
    set_amounts(draft, here.node_part[down], demands.choice[down_to])
    set_amounts(draft, here.node_part[up], demands.choice[up_to])
    return True


@njit(cache=True, forceinline=True)
def _best_pair(
    room: Ints, demands: ProfiledDemands, here: Here, i: int, j: int, best_gain: float
) -> tuple[float, int, int]:
    """Return what i gains and j loses at most in all, and the new choice of each; -1 if not more than `best_gain`."""
    chosen, up_to, down_to = here.chosen, -1, -1
    for then in range(chosen[i] + 1, here.last[i]):
        gain = here.gpus[i] * (demands.choice_speed[then] - demands.choice_speed[chosen[i]])
        if gain <= best_gain:
            continue
        for other in range(chosen[j] - 1, here.first[j] - 1, -1):
            net = gain - here.gpus[j] * (demands.choice_speed[chosen[j]] - demands.choice_speed[other])
            if net <= best_gain:
                break
            short = 0
            for resource in range(1, RESOURCE_COUNT):
                more = demands.choice[then, resource] - demands.choice[chosen[i], resource]
                less = demands.choice[chosen[j], resource] - demands.choice[other, resource]
                short += here.gpus[i] * more - here.gpus[j] * less > room[resource]
            if short == 0:
                best_gain, up_to, down_to = net, then, other
    return best_gain, up_to, down_to


@njit(cache=True)
def _make_room(draft: PlacementDraft, demands: ProfiledDemands, node: int, here: Here) -> bool:
    """Step one job up and as many others down as it takes, the best way; whether that gains anything."""
    chosen, room = here.chosen, draft.free[node]
    trial, best = chosen.copy(), chosen.copy()
    free = np.zeros(RESOURCE_COUNT, np.int64)
    most = _EPSILON
    for i in range(len(chosen)):
        for then in range(chosen[i] + 1, here.last[i]):
            net = here.gpus[i] * (demands.choice_speed[then] - demands.choice_speed[chosen[i]])
            if net > most:
                trial[:] = chosen
                trial[i] = then
                for resource in range(1, RESOURCE_COUNT):
                    more = demands.choice[then, resource] - demands.choice[chosen[i], resource]
                    free[resource] = room[resource] - here.gpus[i] * more
                net = _step_down_others(demands, here, trial, i, free, net, most)
                if net > most and free.min() >= 0:
                    most = net
                    best[:] = trial
    for i in range(len(chosen)):
        if best[i] != chosen[i]:
            chosen[i] = best[i]
            set_amounts(draft, here.node_part[i], demands.choice[best[i]])
    return most > _EPSILON


@njit(cache=True, forceinline=True)
def _step_down_others(
    demands: ProfiledDemands, here: Here, trial: Ints, spared: int, free: Ints, net: float, most: float
) -> float:
    """Step the other jobs down while something is short and the net gain exceeds `most`; the net gain left.

    First steps down the job that loses least for what it gives of what is short, in GPUs' shares.
    """
    while net > most and free.min() < 0:
        j, other = _cheapest_step_down(demands, here, trial, spared, free)
        if j < 0:
            break
        net -= here.gpus[j] * (demands.choice_speed[trial[j]] - demands.choice_speed[other])
        for resource in range(1, RESOURCE_COUNT):
            given = demands.choice[trial[j], resource] - demands.choice[other, resource]
            free[resource] += here.gpus[j] * given
        trial[j] = other
    return net


@njit(cache=True, forceinline=True)
def _cheapest_step_down(
    demands: ProfiledDemands, here: Here, trial: Ints, spared: int, free: Ints
) -> tuple[int, int]:
    """Return the job that loses least for each share of what is short, and its lower choice; (-1, -1): none."""
    found, lower, least = -1, -1, np.inf
    for j in range(len(trial)):
        if j == spared:
            continue
        for other in range(here.first[j], trial[j]):
            relief = 0.0
            for resource in range(1, RESOURCE_COUNT):
                given = demands.choice[trial[j], resource] - demands.choice[other, resource]
                used = min(here.gpus[j] * given, max(-free[resource], 0))
                if used != 0:
                    relief += used / here.share[resource]
            if relief > _EPSILON:
                loss = here.gpus[j] * (demands.choice_speed[trial[j]] - demands.choice_speed[other]) / relief
                if loss < least:
                    found, lower, least = j, other, loss
    return found, lower


@njit(cache=True)
def _part_steps(draft: PlacementDraft, gangs: Gangs, node: int, here: Ints, kind: int) -> float:
    """Hand out what is left between the measured points; the speed gained, times GPUs."""
    gained = 0.0
    now, point = np.zeros(RESOURCE_COUNT, np.int64), np.zeros(RESOURCE_COUNT, np.int64)
    gains = np.ones(len(here), np.bool_)
    for _ in range(len(here)):
        best, most = -1, _EPSILON
        for i in range(len(here)):
            # Less and less is left: a job that gains nothing now never will.
            if gains[i]:
                gain = _part_step(draft, gangs, node, here[i], kind, now, point)
                gains[i] = gain > 0
                if gain > most:
                    best, most = i, gain
        if best < 0:
            break
        gained += _part_step(draft, gangs, node, here[best], kind, now, point)
        set_amounts(draft, here[best], point)
    return gained


@njit(cache=True, forceinline=True)
def _part_step(
    draft: PlacementDraft, gangs: Gangs, node: int, number: int, kind: int, now: Ints, point: Ints
) -> float:
    """What a job would gain from all that is left, or from all CPUs that are left.

    `now` gets what it has beside each GPU, `point` what it would have.
    """
    node_part = draft.node_parts[number]
    at, gpus = node_part["at"], node_part["gpus"]
    model = model_on(gangs, at, kind)
    entry = gangs.models[model]
    if entry["n_cpus"] == 0:
        return 0.0
    limit = gangs.demands.limit[gangs.classes[at], kind]
    per_gpu(draft, number, now)
    speed = speed_at(gangs.models, model, now)
    most_cpus = max(now[1], micro(entry["cpus"][entry["n_cpus"] - 1]))
    most_memory = max(now[2], micro(entry["memory"][entry["n_memory"] - 1]))
    point[1] = min(now[1] + draft.free[node, 1] // gpus, limit[1], most_cpus)
    point[2] = min(now[2] + draft.free[node, 2] // gpus, limit[2], most_memory)
    point[3] = min(now[3] + draft.free[node, 3] // gpus, limit[3])
    gain = speed_at(gangs.models, model, point) - speed
    if gain <= _EPSILON:
        return 0.0
    for resource in range(1, RESOURCE_COUNT):
        most = point[resource]
        point[resource] = now[resource]
        if speed_at(gangs.models, model, point) - speed < gain:
            point[resource] = most
    gained: float = gpus * (speed_at(gangs.models, model, point) - speed)
    return gained


@njit(cache=True, forceinline=True)
def gang_speed(draft: PlacementDraft, gangs: Gangs, at: int) -> float:
    """Return the speed of a placed job: that of its slowest node."""
    slowest = np.inf
    number = draft.first[at]
    while number >= 0:
        node_part = draft.node_parts[number]
        model = model_on(gangs, at, gangs.kind_of_node[node_part["node"]])
        slowest = min(slowest, speed_at(gangs.models, model, node_part["amount"] // node_part["gpus"]))
        number = node_part["next"]
    return slowest if slowest < np.inf else 0.0


@njit(cache=True, forceinline=True)
def raise_gang(draft: PlacementDraft, gangs: Gangs, at: int) -> None:
    """Give a job on several nodes of one kind the fastest choice that all of them have room for."""
    first = draft.first[at]
    if first < 0 or draft.node_parts[first]["next"] < 0:
        return
    kind = gangs.kind_of_node[draft.node_parts[first]["node"]]
    pair = gangs.classes[at] * len(gangs.kinds) + kind
    demands = gangs.demands
    speed = gang_speed(draft, gangs, at)
    for then in range(demands.first_choice[pair + 1] - 1, demands.first_choice[pair] - 1, -1):
        if demands.choice_speed[then] <= speed + _EPSILON:
            return
        room = True
        number = first
        while number >= 0:
            node_part = draft.node_parts[number]
            room = room and gangs.kind_of_node[node_part["node"]] == kind
            more = demands.choice[then] - node_part["amount"] // node_part["gpus"]
            room = room and fits(draft, node_part["node"], node_part["gpus"], more)
            number = node_part["next"]
        if room:
            number = first
            while number >= 0:
                set_amounts(draft, number, demands.choice[then])
                number = draft.node_parts[number]["next"]
            return
