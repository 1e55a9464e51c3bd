"""One machine's CPU, memory and storage given to those of its jobs that gain most, compiled.

Only jobs that sit on this machine alone take part; each has at least its fair choice, so none falls below
its GPU-proportional speed.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.books import Ints
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, model_on
from muster.schedulers.allocation.seats import Seats, fits, furnish
from muster.speed.points import micro, speed_at

_EPSILON = 1e-9


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
    here = _alone_here(seats, node)
    if not len(here):
        return
    kind = gangs.kind_of_node[node]
    share = np.maximum(gangs.kinds[kind]["share"], 1)
    before = np.empty((len(here), 4), np.int64)
    value = 0.0
    for i in range(len(here)):
        seat = seats.seats[here[i]]
        before[i] = seat["amount"] // seat["gpus"]
        value += seat["gpus"] * speed_at(gangs.models, model_on(gangs, seat["at"], kind), before[i])
    chosen = np.empty(len(here), np.int64)
    for i in range(len(here)):
        at = seats.seats[here[i]]["at"]
        chosen[i] = gangs.demands.first_choice[gangs.classes[at] * len(gangs.kinds) + kind]
        furnish(seats, here[i], gangs.demands.choice[chosen[i]])
    reached = -1.0
    if seats.free[node].min() >= 0:
        _climb(seats, gangs, node, here, chosen, share)
        while _exchange(seats, gangs, node, here, chosen) or _make_room(
            seats, gangs, node, here, chosen, share
        ):
            _climb(seats, gangs, node, here, chosen, share)
        reached = _part_steps(seats, gangs, node, here, kind)
        for i in range(len(here)):
            reached += seats.seats[here[i]]["gpus"] * gangs.demands.choice_speed[chosen[i]]
    if reached < 0 or (reached <= value + _EPSILON and _are_fair(gangs, kind, seats, here, before)):
        for i in range(len(here)):
            furnish(seats, here[i], before[i])


@njit(cache=True)
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
            here[count] = number
            count += 1
        number = seat["next_here"]
    # In the order of the jobs, so that who came to the machine first makes no difference.
    return here[np.argsort(seats.seats["at"][here], kind="mergesort")]


@njit(cache=True)
def _are_fair(gangs: Gangs, kind: int, seats: Seats, here: Ints, amounts: Ints) -> bool:
    for i in range(len(here)):
        at = seats.seats[here[i]]["at"]
        fair = gangs.demands.fair_speed[gangs.classes[at], kind]
        if speed_at(gangs.models, model_on(gangs, at, kind), amounts[i]) < fair * (1 - _EPSILON):
            return False
    return True


@njit(cache=True)
def _last_choice(gangs: Gangs, seats: Seats, number: int, node: int) -> int:
    at = seats.seats[number]["at"]
    last: int = gangs.demands.first_choice[
        gangs.classes[at] * len(gangs.kinds) + gangs.kind_of_node[node] + 1
    ]
    return last


@njit(cache=True)
def _room_for(seats: Seats, gangs: Gangs, node: int, number: int, now: int, then: int) -> bool:
    gpus = seats.seats[number]["gpus"]
    short = 0
    for resource in range(1, 4):
        more = gangs.demands.choice[then, resource] - gangs.demands.choice[now, resource]
        short += gpus * more > seats.free[node, resource]
    return short == 0


@njit(cache=True)
def _climb(seats: Seats, gangs: Gangs, node: int, here: Ints, chosen: Ints, share: Ints) -> None:
    """While there is room: the step that gains most for what it takes, in GPUs' shares."""
    demands = gangs.demands
    while True:
        best_i, best_then, best_rate = -1, -1, 0.0
        for i in range(len(here)):
            for then in range(chosen[i] + 1, _last_choice(gangs, seats, here[i], node)):
                gain = demands.choice_speed[then] - demands.choice_speed[chosen[i]]
                cost = _EPSILON
                for resource in range(1, 4):
                    more = demands.choice[then, resource] - demands.choice[chosen[i], resource]
                    cost += max(more, 0) / share[resource]
                if gain / cost > best_rate and _room_for(seats, gangs, node, here[i], chosen[i], then):
                    best_i, best_then, best_rate = i, then, gain / cost
        if best_i < 0:
            return
        chosen[best_i] = best_then
        furnish(seats, here[best_i], demands.choice[best_then])


@njit(cache=True)
def _exchange(seats: Seats, gangs: Gangs, node: int, here: Ints, chosen: Ints) -> bool:
    """The best pair of one job that steps up and another that steps down; whether one was found."""
    demands = gangs.demands
    best_gain, up, up_to, down, down_to = _EPSILON, -1, -1, -1, -1
    for i in range(len(here)):
        for j in range(len(here)):
            if i == j:
                continue
            i_gpus, j_gpus = seats.seats[here[i]]["gpus"], seats.seats[here[j]]["gpus"]
            first = demands.first_choice[
                gangs.classes[seats.seats[here[j]]["at"]] * len(gangs.kinds) + gangs.kind_of_node[node]
            ]
            for then in range(chosen[i] + 1, _last_choice(gangs, seats, here[i], node)):
                gain = i_gpus * (demands.choice_speed[then] - demands.choice_speed[chosen[i]])
                if gain <= best_gain:
                    continue
                for other in range(chosen[j] - 1, first - 1, -1):
                    net = gain - j_gpus * (demands.choice_speed[chosen[j]] - demands.choice_speed[other])
                    if net <= best_gain:
                        break
                    short = 0
                    for resource in range(1, 4):
                        more = i_gpus * (demands.choice[then, resource] - demands.choice[chosen[i], resource])
                        more += j_gpus * (
                            demands.choice[other, resource] - demands.choice[chosen[j], resource]
                        )
                        short += more > seats.free[node, resource]
                    if short == 0:
                        best_gain, up, up_to, down, down_to = net, i, then, j, other
    if up < 0:
        return False
    chosen[up], chosen[down] = up_to, down_to
    furnish(seats, here[down], demands.choice[down_to])
    furnish(seats, here[up], demands.choice[up_to])
    return True


@njit(cache=True)
def _make_room(seats: Seats, gangs: Gangs, node: int, here: Ints, chosen: Ints, share: Ints) -> bool:
    """The best of: one job steps up and as many others step down as it takes; whether that gains anything.

    Down goes first who loses least for what it gives of what is short, in GPUs' shares.
    """
    demands = gangs.demands
    trial, best = chosen.copy(), chosen.copy()
    free = np.zeros(4, np.int64)
    most = _EPSILON
    for i in range(len(here)):
        gpus = seats.seats[here[i]]["gpus"]
        for then in range(chosen[i] + 1, _last_choice(gangs, seats, here[i], node)):
            net = gpus * (demands.choice_speed[then] - demands.choice_speed[chosen[i]])
            trial[:] = chosen
            trial[i] = then
            for resource in range(1, 4):
                more = demands.choice[then, resource] - demands.choice[chosen[i], resource]
                free[resource] = seats.free[node, resource] - gpus * more
            while net > most and free.min() < 0:
                j, other = _cheapest_step_down(seats, gangs, node, here, trial, i, free, share)
                if j < 0:
                    break
                down = seats.seats[here[j]]["gpus"]
                net -= down * (demands.choice_speed[trial[j]] - demands.choice_speed[other])
                for resource in range(1, 4):
                    given = demands.choice[trial[j], resource] - demands.choice[other, resource]
                    free[resource] += down * given
                trial[j] = other
            if net > most and free.min() >= 0:
                most = net
                best[:] = trial
    if most <= _EPSILON:
        return False
    for i in range(len(here)):
        if best[i] != chosen[i]:
            chosen[i] = best[i]
            furnish(seats, here[i], demands.choice[best[i]])
    return True


@njit(cache=True)
def _cheapest_step_down(
    seats: Seats, gangs: Gangs, node: int, here: Ints, trial: Ints, spared: int, free: Ints, share: Ints
) -> tuple[int, int]:
    """Who loses least for each share that it gives of what is short, and its lower choice; (-1, -1): nobody."""
    demands = gangs.demands
    kind = gangs.kind_of_node[node]
    who, lower, least = -1, -1, np.inf
    for j in range(len(here)):
        if j == spared:
            continue
        seat = seats.seats[here[j]]
        first = demands.first_choice[gangs.classes[seat["at"]] * len(gangs.kinds) + kind]
        for other in range(first, trial[j]):
            relief = 0.0
            for resource in range(1, 4):
                given = demands.choice[trial[j], resource] - demands.choice[other, resource]
                short = max(-free[resource], 0)
                relief += min(seat["gpus"] * given, short) / share[resource]
            if relief > _EPSILON:
                loss = seat["gpus"] * (demands.choice_speed[trial[j]] - demands.choice_speed[other]) / relief
                if loss < least:
                    who, lower, least = j, other, loss
    return who, lower


@njit(cache=True)
def _part_steps(seats: Seats, gangs: Gangs, node: int, here: Ints, kind: int) -> float:
    """Hand out what is left between the measured points; the speed gained, times GPUs."""
    gained = 0.0
    point = np.zeros(4, np.int64)
    for _ in range(len(here)):
        best, most = -1, _EPSILON
        for i in range(len(here)):
            gain = _part_step(seats, gangs, node, here[i], kind, point)
            if gain > most:
                best, most = i, gain
        if best < 0:
            break
        gained += _part_step(seats, gangs, node, here[best], kind, point)
        furnish(seats, here[best], point)
    return gained


@njit(cache=True)
def _part_step(seats: Seats, gangs: Gangs, node: int, number: int, kind: int, point: Ints) -> float:
    """What a job would gain from all that is left, or from all CPUs that are left; `point` gets the amounts."""
    seat = seats.seats[number]
    at, gpus = seat["at"], seat["gpus"]
    model = model_on(gangs, at, kind)
    entry = gangs.models[model]
    if entry["n_cpus"] == 0:
        return 0.0
    limit = gangs.demands.limit[gangs.classes[at], kind]
    now = seat["amount"] // gpus
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


@njit(cache=True)
def gang_speed(seats: Seats, gangs: Gangs, at: int) -> float:
    """Speed of a seated job: that of its slowest machine."""
    slowest = np.inf
    number = seats.first[at]
    while number >= 0:
        seat = seats.seats[number]
        model = model_on(gangs, at, gangs.kind_of_node[seat["node"]])
        speed = speed_at(gangs.models, model, seat["amount"] // seat["gpus"])
        slowest = min(slowest, speed)
        number = seat["next"]
    return slowest if slowest < np.inf else 0.0


@njit(cache=True)
def raise_gang(seats: Seats, gangs: Gangs, at: int) -> None:
    """A job on several machines of one kind takes the fastest choice that all of them have room for."""
    first = seats.first[at]
    if first < 0 or seats.seats[first]["next"] < 0:
        return
    kind = gangs.kind_of_node[seats.seats[first]["node"]]
    pair = gangs.classes[at] * len(gangs.kinds) + kind
    demands = gangs.demands
    for then in range(demands.first_choice[pair + 1] - 1, demands.first_choice[pair] - 1, -1):
        if demands.choice_speed[then] <= gang_speed(seats, gangs, at) + _EPSILON:
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
