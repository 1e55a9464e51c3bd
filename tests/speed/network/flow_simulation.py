"""A flow-level simulation of gangs that share uplinks, on which the contention model is judged.

Every gang computes, and its messages go through its dimensions one after the other, each dimension a queue. While gangs
send over uplinks at the same time, these are shared max-min fairly, again at every event. Each gang uses of a link what
the fastest of its stages there uses, as the model of a gang alone has it. Gangs begin at random moments; the mean
iteration of each is taken.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from muster.cluster import Cluster, Link, Links, Node
from muster.speed.network.collectives import BANDWIDTH_AWARE, RING, stack
from muster.speed.network.dimensions import PHYSICAL, dimensions
from muster.speed.network.models import CompactModel
from muster.speed.network.placement import Placements, loads_of, shapes_of, uplinks_of
from muster.speed.network.placement_core import EVEN_RACKS
from muster.speed.network.speed import NetworkSpeed

MACHINES, IN_RACK, GPUS = 8, 4, 4
WARM = 5
"""Iterations that do not count."""


@dataclass(frozen=True)
class Mix:
    """Some gangs on one cluster."""

    speed: NetworkSpeed
    models: Sequence[CompactModel]
    placements: Placements


def random_mix(chance: np.random.Generator) -> Mix:
    """Two to six gangs of one or two GPUs on each of two to four machines, which they share."""
    nodes = tuple(
        Node(f"n{at}", "4gpu", at // IN_RACK, GPUS, "v100", GPUS, 12.0, 250.0, 1.0, 2.0)
        for at in range(MACHINES)
    )
    links = Links(
        Link(200.0, 0.0), Link(50.0, 0.0), Link(5.0, 1e-6), Link(5.0, 1e-6, float(chance.choice([1, 2])))
    )
    free, rows, models = [GPUS] * MACHINES, [], []
    for number in range(int(chance.integers(2, 7))):
        each = int(chance.integers(1, 3))
        room = [node for node in range(MACHINES) if free[node] >= each]
        machines = int(chance.integers(2, 5))
        if len(room) < machines:
            continue
        place = {int(node): GPUS - free[node] for node in chance.choice(room, machines, replace=False)}
        rows.append({node: (1 << each) - 1 << used for node, used in sorted(place.items())})
        for node in place:
            free[node] -= each
        compute, share = chance.uniform(0.1, 0.5), chance.uniform(0.1, 1.5)
        messages, first, largest, where = (
            int(chance.integers(2, 7)),
            chance.uniform(0.2, 0.5),
            chance.uniform(0.1, 0.5),
            chance.uniform(0, 1),
        )
        models.append(
            CompactModel(
                f"m{number}", compute, messages, compute * share, first, 1.0, 1.0, largest, where, 0.0, 0.0
            )
        )
    placements = Placements(
        np.cumsum([0, *map(len, rows)]),
        np.array([node for row in rows for node in row], np.int64),
        np.array([bits for row in rows for bits in row.values()], np.int64),
    )
    return Mix(NetworkSpeed(models, Cluster("mix", nodes, ("a", "b"), links)), models, placements)


@dataclass
class _Gang:
    """One gang at a moment."""

    seconds: list[list[float]]
    """By dimension and message, at full speed."""
    uses: list[dict[int, float]]
    """By dimension the GB/s of each uplink at full speed; none within a machine."""
    ready: list[float]
    compute: float
    queues: list[list[int]] = field(default_factory=list)
    active: list[list[float] | None] = field(default_factory=list)
    """By dimension the message that it sends, and the seconds left at full speed."""
    sent: int = 0
    computed: bool = False
    begun: float = 0.0
    iterations: list[float] = field(default_factory=list)

    def feed(self, at: int) -> None:
        """Begin the next message of a dimension."""
        if self.active[at] is None and self.queues[at]:
            message = self.queues[at].pop(0)
            self.active[at] = [message, self.seconds[at][message]]

    def use(self) -> dict[int, float]:
        """GB/s of each uplink at full speed, now."""
        found: dict[int, float] = {}
        for uses, active in zip(self.uses, self.active, strict=True):
            for link, rate in uses.items() if active else ():
                found[link] = max(found.get(link, 0.0), rate)
        return found


def mean_iterations(mix: Mix, chance: np.random.Generator, iterations: int) -> np.ndarray:
    """Seconds of an iteration of each gang, the mean of so many at least."""
    run = _Run(_gangs(mix), mix.speed.tree.uplink_gb_per_s)
    for number, gang in enumerate(run.gangs):
        run.begin(number, float(chance.uniform(0, 2 * gang.compute)))
    while min(len(gang.iterations) for gang in run.gangs) < iterations:
        run.send()
        run.hear()
    return np.array([np.mean(gang.iterations[WARM:]) for gang in run.gangs])


class _Run:
    """The gangs, the time, and when gradients are ready and computing ends."""

    def __init__(self, gangs: list[_Gang], capacity: np.ndarray) -> None:
        self.gangs, self.capacity, self.now = gangs, capacity, 0.0
        self.events: list[tuple[float, int, int, int]] = []
        self.numbers = count()

    def begin(self, number: int, now: float) -> None:
        """The next iteration of a gang."""
        gang = self.gangs[number]
        gang.begun, gang.sent, gang.computed = now, 0, False
        for message, ready in enumerate(gang.ready):
            heapq.heappush(self.events, (now + ready, next(self.numbers), number, message))
        heapq.heappush(self.events, (now + gang.compute, next(self.numbers), number, -1))

    def end_if_done(self, number: int) -> None:
        """Count the iteration of a gang that has computed and sent everything."""
        gang = self.gangs[number]
        if gang.computed and gang.sent == len(gang.ready):
            gang.iterations.append(self.now - gang.begun)
            self.begin(number, self.now)

    def send(self) -> None:
        """Until a message is through a dimension, or something else happens."""
        sending = {number: use for number, gang in enumerate(self.gangs) if (use := gang.use())}
        speeds = _max_min(sending, self.capacity)
        rates = {
            (number, at): speeds[number] if gang.uses[at] else 1.0
            for number, gang in enumerate(self.gangs)
            for at, active in enumerate(gang.active)
            if active
        }
        left = [_active(self.gangs, key)[1] / rate for key, rate in rates.items()]
        next_event = [self.events[0][0] - self.now] if self.events else []
        elapsed = max(min([*next_event, *left]), 0.0)
        self.now += elapsed
        for key, rate in rates.items():
            _active(self.gangs, key)[1] -= elapsed * rate
        for number, at in [key for key in rates if _active(self.gangs, key)[1] <= 1e-12]:
            self._pass_on(number, at)

    def _pass_on(self, number: int, at: int) -> None:
        """A message goes on to the next dimension, if there is one."""
        gang = self.gangs[number]
        message = int(_active(self.gangs, (number, at))[0])
        gang.active[at] = None
        if at + 1 < len(gang.queues):
            gang.queues[at + 1].append(message)
            gang.feed(at + 1)
        else:
            gang.sent += 1
            self.end_if_done(number)
        gang.feed(at)

    def hear(self) -> None:
        """Gradients that are ready, and computing that has ended."""
        while self.events and self.events[0][0] <= self.now + 1e-12:
            _, _, number, message = heapq.heappop(self.events)
            if message < 0:
                self.gangs[number].computed = True
                self.end_if_done(number)
            else:
                self.gangs[number].queues[0].append(message)
                self.gangs[number].feed(0)


def _active(gangs: Sequence[_Gang], key: tuple[int, int]) -> list[float]:
    found = gangs[key[0]].active[key[1]]
    assert found is not None
    return found


def _max_min(sending: Mapping[int, Mapping[int, float]], capacity: np.ndarray) -> dict[int, float]:
    """Speed of each gang against full speed: rates on its busiest link rise alike until that is full."""
    most = {gang: max(use.values()) for gang, use in sending.items()}
    left: dict[int, float] = {link: float(capacity[link]) for use in sending.values() for link in use}
    speeds: dict[int, float] = {}
    while len(speeds) < len(sending):
        rising = [gang for gang in sending if gang not in speeds]
        level, full = min(most[gang] for gang in rising), None
        for link, room in left.items():
            load = sum(sending[gang].get(link, 0.0) / most[gang] for gang in rising)
            if load > 0 and room < level * load - 1e-12:
                level, full = max(room, 0.0) / load, link
        for gang in rising:
            if (full in sending[gang]) if full is not None else most[gang] <= level * (1 + 1e-12):
                speeds[gang] = min(1.0, level / most[gang])
                for link, use in sending[gang].items():
                    left[link] -= level * use / most[gang]
    return speeds


def _gangs(mix: Mix) -> list[_Gang]:
    tree, placements = mix.speed.tree, mix.placements
    shapes = shapes_of(placements, tree)
    first, links = uplinks_of(placements, tree)
    loads = loads_of(placements, shapes, tree)
    gangs = []
    for number, model in enumerate(mix.models):
        shape, messages = shapes[number], model.messages()
        sizes, hops, rates = dimensions(PHYSICAL, shape, tree.level_gb_per_s, tree.hop_seconds)
        latency, per_gb = stack(RING, BANDWIDTH_AWARE, sizes, hops, rates)
        here = slice(first[number], first[number + 1])
        crossed = dict(zip(links[here].tolist(), loads[here].tolist(), strict=True))
        gangs.append(
            _Gang(
                [
                    [float(latency[at] + per_gb[at] * gb) for gb in messages.gradient_gb]
                    for at in range(len(sizes))
                ],
                _by_dimension(shape, crossed, per_gb),
                messages.ready_seconds.tolist(),
                messages.compute_seconds,
                [[] for _ in sizes],
                [None for _ in sizes],
            )
        )
    return gangs


def _by_dimension(shape: np.void, crossed: Mapping[int, float], per_gb: np.ndarray) -> list[dict[int, float]]:
    """Which uplinks each dimension uses at how many GB/s, from all that the gang sends over each."""
    racks, machines = int(shape["racks"]), int(shape["machines"])
    uses: list[dict[int, float]] = [{} for _ in per_gb]
    on_machines = {link: load for link, load in crossed.items() if link < MACHINES}
    on_racks = {link: load for link, load in crossed.items() if link >= MACHINES}
    flat = racks > 1 and not int(shape["even"]) & EVEN_RACKS
    in_rack = machines // racks
    if racks == 1 or flat or in_rack == 1:
        uses[-1] = {link: load / float(per_gb[-1]) for link, load in crossed.items()}
        return uses
    # Spread evenly over racks, and, in these mixes, over machines: a ring within each rack, and one between racks.
    between = 2.0 * (racks - 1) / racks
    ring = in_rack
    within = 2.0 * (ring - 1) / ring
    uses[-1] = {link: between / float(per_gb[-1]) for link in on_racks}
    uses[-1] |= {link: (load - within) / float(per_gb[-1]) for link, load in on_machines.items()}
    uses[-2] = {link: within / float(per_gb[-2]) for link in on_machines}
    return uses
