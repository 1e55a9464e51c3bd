"""One machine's CPU, memory and storage given to those of its jobs that gain most, compiled.

Only jobs that sit on this machine alone take part; each has at least its fair choice, so none falls below
its GPU-proportional speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.books import Ints
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, model_on
from muster.schedulers.allocation.seats import Seats, fits, furnish
from muster.speed.demands import Demands
from muster.speed.points import micro, speed_at

_EPSILON = 1e-9


class Here(NamedTuple):
    """The jobs that one machine is given to, by place."""

    seat: Ints
    gpus: Ints
    first: Ints
    """The lowest choice of each, the fair one."""
    last: Ints
    """One past its highest."""
    chosen: Ints


@njit(cache=True)
def furnish_all(seats: Seats, gangs: Gangs) -> None:
    """Give out every machine."""
    for node in range(len(seats.free)):
        furnish_node(seats, gangs, node)


@njit(cache=True)
def furnish_node(seats: Seats, gangs: Gangs, node: int) -> None:
    """Give the machine anew: the best rates of gain first, then exchanges of two or more, then the rest in part steps.

    What is there already is kept if it is as good.
    """
    seated = _alone_here(seats, node)
    if not len(seated):
        return
    kind = gangs.kind_of_node[node]
    share = np.maximum(gangs.kinds[kind]["share"], 1)
    demands = gangs.demands
    before, value = _as_it_is(seats, gangs, kind, seated)
    here = _at_their_lowest(seats, gangs, kind, seated)
    reached = -1.0
    if seats.free[node].min() >= 0:
        _climb(seats, demands, node, here, share)
        while _exchange(seats, demands, node, here) or _make_room(seats, demands, node, here, share):
            _climb(seats, demands, node, here, share)
        reached = _part_steps(seats, gangs, node, seated, kind)
        for i in range(len(seated)):
            reached += here.gpus[i] * demands.choice_speed[here.chosen[i]]
    if reached < 0 or (reached <= value + _EPSILON and _are_fair(gangs, kind, seats, seated, before)):
        for i in range(len(seated)):
            furnish(seats, seated[i], before[i])


@njit(cache=True, forceinline=True)
def _alone_here(seats: Seats, node: int) -> Ints:
    """The machine's seats that are all their job has."""
    count = 0
    number = seats.first_here[node]
    while number >= 0:
        seat = seats.seats[number]
        count += seats.first[seat["at"]] == number and seat["next"] < 0
        number = seat["next_here"]
    here = np.empty(count, np.int64)
    count = 0
    number = seats.first_here[node]
    while number >= 0:
        seat = seats.seats[number]
        if seats.first[seat["at"]] == number and seat["next"] < 0:
            # In the order of the jobs, so that who came to the machine first makes no difference.
            place = count
            while place > 0 and seats.seats[here[place - 1]]["at"] > seat["at"]:
                here[place] = here[place - 1]
                place -= 1
            here[place] = number
            count += 1
        number = seat["next_here"]
    return here


@njit(cache=True, forceinline=True)
def per_gpu(seats: Seats, number: int, amounts: Ints) -> None:
    """Write what a seat has beside each of its GPUs; the GPUs' own entry is not touched."""
    seat = seats.seats[number]
    for resource in range(1, 4):
        amounts[resource] = seat["amount"][resource] // seat["gpus"]


@njit(cache=True, forceinline=True)
def _as_it_is(seats: Seats, gangs: Gangs, kind: int, seated: Ints) -> tuple[Ints, float]:
    """What the seats have beside each GPU; the speed of all, times GPUs."""
    before = np.empty((len(seated), 4), np.int64)
    value = 0.0
    for i in range(len(seated)):
        seat = seats.seats[seated[i]]
        per_gpu(seats, seated[i], before[i])
        value += seat["gpus"] * speed_at(gangs.models, model_on(gangs, seat["at"], kind), before[i])
    return before, value


@njit(cache=True, forceinline=True)
def _at_their_lowest(seats: Seats, gangs: Gangs, kind: int, seated: Ints) -> Here:
    """Give each its lowest choice."""
    count = len(seated)
    gpus, first, last = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):
        seat = seats.seats[seated[i]]
        pair = gangs.classes[seat["at"]] * len(gangs.kinds) + kind
        gpus[i] = seat["gpus"]
        first[i], last[i] = gangs.demands.first_choice[pair], gangs.demands.first_choice[pair + 1]
        furnish(seats, seated[i], gangs.demands.choice[first[i]])
    return Here(seated, gpus, first, last, first.copy())


@njit(cache=True)
def meets_requests(seats: Seats, gangs: Gangs, node: int) -> bool:
    """Whether every job of a machine has at least what it requests."""
    number = seats.first_here[node]
    while number >= 0:
        seat = seats.seats[number]
        for resource in range(1, 4):
            least = seat["gpus"] * gangs.demands.requested[gangs.classes[seat["at"]], resource]
            if seat["amount"][resource] < least:
                return False
        number = seat["next_here"]
    return True


@njit(cache=True)
def _are_fair(gangs: Gangs, kind: int, seats: Seats, here: Ints, amounts: Ints) -> bool:
    for i in range(len(here)):
        at = seats.seats[here[i]]["at"]
        fair = gangs.demands.fair_speed[gangs.classes[at], kind]
        if speed_at(gangs.models, model_on(gangs, at, kind), amounts[i]) < fair * (1 - _EPSILON):
            return False
        for resource in range(1, 4):
            if amounts[i, resource] < gangs.demands.requested[gangs.classes[at], resource]:
                return False
    return True


@njit(cache=True)
def _climb(seats: Seats, demands: Demands, node: int, here: Here, share: Ints) -> None:
    """While there is room: the step that gains most for what it takes, in GPUs' shares."""
    chosen, free = here.chosen, seats.free[node]
    while True:
        best_i, best_then, best_rate = -1, -1, 0.0
        for i in range(len(chosen)):
            for then in range(chosen[i] + 1, here.last[i]):
                gain = demands.choice_speed[then] - demands.choice_speed[chosen[i]]
                cost = _EPSILON
                short = 0
                for resource in range(1, 4):
                    more = demands.choice[then, resource] - demands.choice[chosen[i], resource]
                    short += here.gpus[i] * more > free[resource]
                    if more > 0:
                        cost += more / share[resource]
                if short == 0 and gain / cost > best_rate:
                    best_i, best_then, best_rate = i, then, gain / cost
        if best_i < 0:
            return
        chosen[best_i] = best_then
        furnish(seats, here.seat[best_i], demands.choice[best_then])


@njit(cache=True)
def _exchange(seats: Seats, demands: Demands, node: int, here: Here) -> bool:
    """The best pair of one job that steps up and another that steps down; whether one was found."""
    chosen, free = here.chosen, seats.free[node]
    best_gain, up, up_to, down, down_to = _EPSILON, -1, -1, -1, -1
    for i in range(len(chosen)):
        for j in range(len(chosen)):
            if i == j or chosen[j] == here.first[j]:
                continue
            for then in range(chosen[i] + 1, here.last[i]):
                gain = here.gpus[i] * (demands.choice_speed[then] - demands.choice_speed[chosen[i]])
                if gain <= best_gain:
                    continue
                for other in range(chosen[j] - 1, here.first[j] - 1, -1):
                    loss = demands.choice_speed[chosen[j]] - demands.choice_speed[other]
                    net = gain - here.gpus[j] * loss
                    if net <= best_gain:
                        break
                    short = 0
                    for resource in range(1, 4):
                        more = demands.choice[then, resource] - demands.choice[chosen[i], resource]
                        less = demands.choice[chosen[j], resource] - demands.choice[other, resource]
                        short += here.gpus[i] * more - here.gpus[j] * less > free[resource]
                    if short == 0:
                        best_gain, up, up_to, down, down_to = net, i, then, j, other
    if up < 0:
        return False
    chosen[up], chosen[down] = up_to, down_to
    furnish(seats, here.seat[down], demands.choice[down_to])
    furnish(seats, here.seat[up], demands.choice[up_to])
    return True


@njit(cache=True)
def _make_room(seats: Seats, demands: Demands, node: int, here: Here, share: Ints) -> bool:
    """The best of: one job steps up and as many others step down as it takes; whether that gains anything.

    Down goes first who loses least for what it gives of what is short, in GPUs' shares.
    """
    chosen = here.chosen
    trial, best = chosen.copy(), chosen.copy()
    free = np.zeros(4, np.int64)
    most = _EPSILON
    for i in range(len(chosen)):
        for then in range(chosen[i] + 1, here.last[i]):
            net = here.gpus[i] * (demands.choice_speed[then] - demands.choice_speed[chosen[i]])
            if net <= most:
                continue
            trial[:] = chosen
            trial[i] = then
            for resource in range(1, 4):
                more = demands.choice[then, resource] - demands.choice[chosen[i], resource]
                free[resource] = seats.free[node, resource] - here.gpus[i] * more
            while net > most and free.min() < 0:
                j, other = _cheapest_step_down(demands, here, trial, i, free, share)
                if j < 0:
                    break
                net -= here.gpus[j] * (demands.choice_speed[trial[j]] - demands.choice_speed[other])
                for resource in range(1, 4):
                    given = demands.choice[trial[j], resource] - demands.choice[other, resource]
                    free[resource] += here.gpus[j] * given
                trial[j] = other
            if net > most and free.min() >= 0:
                most = net
                best[:] = trial
    if most <= _EPSILON:
        return False
    for i in range(len(chosen)):
        if best[i] != chosen[i]:
            chosen[i] = best[i]
            furnish(seats, here.seat[i], demands.choice[best[i]])
    return True


@njit(cache=True, forceinline=True)
def _cheapest_step_down(
    demands: Demands, here: Here, trial: Ints, spared: int, free: Ints, share: Ints
) -> tuple[int, int]:
    """Who loses least for each share that it gives of what is short, and its lower choice; (-1, -1): nobody."""
    who, lower, least = -1, -1, np.inf
    for j in range(len(trial)):
        if j == spared:
            continue
        for other in range(here.first[j], trial[j]):
            relief = 0.0
            for resource in range(1, 4):
                given = demands.choice[trial[j], resource] - demands.choice[other, resource]
                used = min(here.gpus[j] * given, max(-free[resource], 0))
                if used != 0:
                    relief += used / share[resource]
            if relief > _EPSILON:
                loss = here.gpus[j] * (demands.choice_speed[trial[j]] - demands.choice_speed[other]) / relief
                if loss < least:
                    who, lower, least = j, other, loss
    return who, lower


@njit(cache=True)
def _part_steps(seats: Seats, gangs: Gangs, node: int, here: Ints, kind: int) -> float:
    """Hand out what is left between the measured points; the speed gained, times GPUs."""
    gained = 0.0
    now, point = np.zeros(4, np.int64), np.zeros(4, np.int64)
    gains = np.ones(len(here), np.bool_)
    for _ in range(len(here)):
        best, most = -1, _EPSILON
        for i in range(len(here)):
            # Less and less is left: whom it no longer helps, it never will.
            if gains[i]:
                gain = _part_step(seats, gangs, node, here[i], kind, now, point)
                gains[i] = gain > 0
                if gain > most:
                    best, most = i, gain
        if best < 0:
            break
        gained += _part_step(seats, gangs, node, here[best], kind, now, point)
        furnish(seats, here[best], point)
    return gained


@njit(cache=True, forceinline=True)
def _part_step(
    seats: Seats, gangs: Gangs, node: int, number: int, kind: int, now: Ints, point: Ints
) -> float:
    """What a job would gain from all that is left, or from all CPUs that are left.

    `now` gets what it has beside each GPU, `point` what it would have.
    """
    seat = seats.seats[number]
    at, gpus = seat["at"], seat["gpus"]
    model = model_on(gangs, at, kind)
    entry = gangs.models[model]
    if entry["n_cpus"] == 0:
        return 0.0
    limit = gangs.demands.limit[gangs.classes[at], kind]
    per_gpu(seats, number, now)
    speed = speed_at(gangs.models, model, now)
    most_cpus = max(now[1], micro(entry["cpus"][entry["n_cpus"] - 1]))
    most_memory = max(now[2], micro(entry["memory"][entry["n_memory"] - 1]))
    point[1] = min(now[1] + seats.free[node, 1] // gpus, limit[1], most_cpus)
    point[2] = min(now[2] + seats.free[node, 2] // gpus, limit[2], most_memory)
    point[3] = min(now[3] + seats.free[node, 3] // gpus, limit[3])
    gain = speed_at(gangs.models, model, point) - speed
    if gain <= _EPSILON:
        return 0.0
    for resource in range(1, 4):
        most = point[resource]
        point[resource] = now[resource]
        if speed_at(gangs.models, model, point) - speed < gain:
            point[resource] = most
    gained: float = gpus * (speed_at(gangs.models, model, point) - speed)
    return gained


@njit(cache=True, forceinline=True)
def gang_speed(seats: Seats, gangs: Gangs, at: int) -> float:
    """Speed of a seated job: that of its slowest machine."""
    slowest = np.inf
    number = seats.first[at]
    while number >= 0:
        seat = seats.seats[number]
        model = model_on(gangs, at, gangs.kind_of_node[seat["node"]])
        slowest = min(slowest, speed_at(gangs.models, model, seat["amount"] // seat["gpus"]))
        number = seat["next"]
    return slowest if slowest < np.inf else 0.0


@njit(cache=True, forceinline=True)
def raise_gang(seats: Seats, gangs: Gangs, at: int) -> None:
    """A job on several machines of one kind takes the fastest choice that all of them have room for."""
    first = seats.first[at]
    if first < 0 or seats.seats[first]["next"] < 0:
        return
    kind = gangs.kind_of_node[seats.seats[first]["node"]]
    pair = gangs.classes[at] * len(gangs.kinds) + kind
    demands = gangs.demands
    speed = gang_speed(seats, gangs, at)
    for then in range(demands.first_choice[pair + 1] - 1, demands.first_choice[pair] - 1, -1):
        if demands.choice_speed[then] <= speed + _EPSILON:
            return
        room = True
        number = first
        while number >= 0:
            seat = seats.seats[number]
            room = room and gangs.kind_of_node[seat["node"]] == kind
            more = demands.choice[then] - seat["amount"] // seat["gpus"]
            room = room and fits(seats, seat["node"], seat["gpus"], more)
            number = seat["next"]
        if room:
            number = first
            while number >= 0:
                furnish(seats, number, demands.choice[then])
                number = seats.seats[number]["next"]
            return
