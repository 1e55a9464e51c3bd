"""The four kinds of parts that a scheduler is composed of, and what each must answer.

A part is a frozen dataclass in a file of its own: its fields are its settings, its docstring's first line
is the sentence that `muster schedulers` prints. `name` is its word on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Any, ClassVar

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import GPU
from muster.cluster.resources import BUILT_IN_COUNT, RESOURCE_COUNT
from muster.formatting import counted
from muster.schedulers.contract import Bools, Floats, Ints, Jobs, Proposal, Scheduler, Snapshot, State
from muster.schedulers.gpu_limits import GpuLimits
from muster.schedulers.user_code import has_own_code, method_problem

DURATIONS = "durations"
"""The one kind of knowledge that a part may need and a world may lack: how much work a job has left."""

SECONDS, GPU_SECONDS = "seconds", "gpu-seconds"
"""Units of keys that an interruption's cost can be counted in."""

TIMES_ADMITTED = 3
"""How often jobs are admitted in a decision at most: again without those that have no place and keep others out."""


@dataclass(frozen=True)
class Part:
    """What all parts have in common."""

    name: ClassVar[str] = ""
    slots: ClassVar[tuple[str, ...]] = ()
    """Which of selection, order, allocation, placement it fills; `tune` fills two."""
    needs: ClassVar[tuple[str, ...]] = ()
    compiled: ClassVar[int | None] = None
    """The number of its compiled form (`composed_core`), if it has one; a class derived from it has none of its own."""
    honours: ClassVar[frozenset[str]]
    """Which of `schedulers.honours` it takes into account; a part that states nothing need not have it."""


@dataclass(frozen=True)
class Order(Part):
    """Who is served first: the smallest key."""

    slots: ClassVar[tuple[str, ...]] = ("queue_order",)
    preemptive: ClassVar[bool] = True
    """Whether a job served earlier may take the GPUs of a running one."""
    strict: ClassVar[bool] = False
    """Whether no job passes one that does not fit."""
    static_priority: ClassVar[bool] = False
    """Whether keys change only when jobs come and go, or in favour of those that run already."""
    time_slices: ClassVar[bool] = False
    """Whether jobs of equal claim are switched again and again; an order that needs durations does so without them."""
    default_placement: ClassVar[str] = "pack"

    @property
    def key_unit(self) -> str:
        """`SECONDS` or `GPU_SECONDS`: a running job's key counts as smaller by its interruption cost; empty: not."""
        return ""

    def key(self, jobs: Jobs) -> Floats | Ints:
        """A number a job; ties go by arrival."""
        raise NotImplementedError

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats | Ints, State]:
        """As `key`, for an order that needs more than the columns or remembers something."""
        return self.key(snapshot.jobs), state

    def initial(self, cluster: Cluster) -> State:
        """What it remembers before the first decision."""
        return None

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """When a waiting job's key will first pass a running one's, if nothing happens; `-inf`: cannot say.

        `running` and `waiting` are positions into the view's jobs, `memory` is what `keys` remembered.
        """
        return inf if self.static_priority else -inf

    def next_tick(self, snapshot: Snapshot, memory: State) -> float:
        """When its keys change for a reason of its own, though no job comes or goes; inf: never."""
        return inf

    def margin(self) -> float:
        """How many times a waiting job's key counts beside running ones under an allocator that spares these.

        It is 1 where keys may be below 0.
        """
        return 1.0

    def quantum(self) -> float:
        """Seconds between questions while jobs may overtake each other; inf: only when something happens."""
        return inf


def checked_quantum(order: Order) -> float:
    """The quantum of an order if it is a time; anything else is refused."""
    quantum = order.quantum()
    if not isinstance(quantum, int | float) or not quantum > 0:
        raise method_problem(order, "quantum", "allowed: seconds above 0, or inf", quantum)
    return quantum


def checked_unit(order: Order) -> str:
    """The unit of an order's keys if it is known; anything else is refused."""
    if (unit := order.key_unit) not in ("", SECONDS, GPU_SECONDS):
        raise method_problem(order, "key_unit", f"allowed: {SECONDS}, {GPU_SECONDS} or an empty text", unit)
    return unit


def checked_margin(order: Order, keys: Floats | Ints) -> float:
    """The margin of an order if it is one for these keys; anything else is refused."""
    margin = order.margin()
    if not isinstance(margin, int | float) or not 1 <= margin < inf:
        raise method_problem(order, "margin", "allowed: a number of at least 1", margin)
    if margin > 1 and keys.min(initial=0) < 0:
        raise method_problem(order, "margin", "allowed: 1 where keys are below 0", margin)
    return margin


def checked_keys(order: Order, keys: Any, jobs: Jobs) -> Floats | Ints:
    """The keys of an order if they are a number for each of these jobs; anything else is refused."""
    allowed = "allowed: a number for each job"
    if not isinstance(keys, np.ndarray):
        raise method_problem(order, "key", allowed, type(keys).__name__)
    if keys.dtype.kind not in "iuf" or keys.ndim != 1:
        raise method_problem(order, "key", allowed, f"values of type {keys.dtype}")
    if len(keys) != len(jobs):
        found = f"{len(keys):,} numbers for {counted(len(jobs), 'job')}"
        raise method_problem(order, "key", allowed, found)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        one = jobs.ids[int(np.flatnonzero(np.isnan(keys))[0])]
        raise method_problem(order, "key", allowed, f"nan for job {one}")
    return keys


def checked_moment(order: Order, method: str, moment: Any) -> float:
    """The moment that a method of an order answers, if it is a number; anything else is refused."""
    if not isinstance(moment, int | float | np.number) or isnan(moment):
        raise method_problem(order, method, "allowed: a number of seconds, inf or -inf", moment)
    return float(moment)


def next_tick_of(order: Order, snapshot: Snapshot, memory: State) -> float:
    """When the keys of an order change for a reason of its own; what is no number is refused."""
    return checked_moment(order, "next_tick", order.next_tick(snapshot, memory))


def keys_of(order: Order, snapshot: Snapshot, memory: State) -> tuple[Floats | Ints, State]:
    """The keys of an order, a number for each job, and what it remembers; anything else is refused."""
    answer: Any = order.keys(snapshot, memory)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise method_problem(order, "keys", "allowed: the keys and what it remembers", type(answer).__name__)
    return checked_keys(order, answer[0], snapshot.jobs), answer[1]


@dataclass(frozen=True)
class Ranking:
    """The jobs to be served, by position in the view, and why the others are not."""

    ranked: Ints
    excluded: Ints
    """Positions of the jobs that may not be served now; those of them that run are stopped."""
    code: int
    """Why, with the two numbers of the reason for each."""
    a: Floats
    b: Floats
    limits: GpuLimits | None = None
    """How many GPUs the jobs of the snapshot may have in all; None: as many as there are."""
    assured: Floats | None = None
    """By position: the GPUs that a job has before all others; None: no job has any."""
    shares: GpuLimits | None = None
    """How many GPUs groups of jobs have before others get more; None: they have none of their own."""


@dataclass(frozen=True)
class AdmissionFilter(Part):
    """Which jobs are considered at all, and which before others whatever the order says."""

    slots: ClassVar[tuple[str, ...]] = ("admission",)

    def select(self, snapshot: Snapshot, ranked: Ints, pinned: Bools) -> Ranking:
        """Filter and regroup the ranked positions; what is pinned runs whatever the answer.

        Running jobs that are not ranked go on running.
        """
        raise NotImplementedError

    def counted_in_vain(self, snapshot: Snapshot, ranking: Ranking, placed: Bools, free: int) -> Ints:
        """Positions of waiting jobs without a place that keep out others, which would be admitted beside those placed.

        `free` are the millionths of GPUs that the jobs with a place leave.
        """
        return np.zeros(0, np.int64)


def ranking_of(part: AdmissionFilter, snapshot: Snapshot, ranked: Ints, pinned: Bools) -> Ranking:
    """What a filter says of the ranked positions, each of them once at most; anything else is refused."""
    ranking: Any = part.select(snapshot, ranked, pinned)
    if not has_own_code(part):
        return ranking  # type: ignore[no-any-return]
    if not isinstance(ranking, Ranking):
        raise method_problem(part, "select", "allowed: a Ranking", type(ranking).__name__)
    for name in ("ranked", "excluded"):
        found, allowed = getattr(ranking, name), f"{name}: allowed: positions of the ranked jobs, each once"
        if not isinstance(found, np.ndarray) or found.dtype != np.int64 or found.ndim != 1:
            raise method_problem(part, "select", f"{allowed}, in an array of int64", type(found).__name__)
        if len(np.unique(found)) < len(found) or not np.isin(found, ranked).all():
            raise method_problem(part, "select", allowed, found.tolist())
    return ranking


def counted_in_vain(
    parts: Sequence[AdmissionFilter], rankings: Sequence[Ranking], snapshot: Snapshot, placed: Bools
) -> Ints:
    """The jobs without a place that some filter counted in vain; anything else is refused."""
    jobs, free, in_vain = snapshot.jobs, int(snapshot.ledger.books.totals[GPU]), [np.zeros(0, np.int64)]
    for part, ranking in zip(parts, rankings, strict=True):
        found: Any = part.counted_in_vain(snapshot, ranking, placed, free)
        if has_own_code(part):
            allowed = "allowed: an array of int64, positions of ranked jobs that wait and have no place"
            if not isinstance(found, np.ndarray) or found.dtype != np.int64 or found.ndim != 1:
                raise method_problem(part, "counted_in_vain", allowed, type(found).__name__)
            waits = ranking.ranked[(jobs.waiting & ~placed)[ranking.ranked]]
            if not np.isin(found, waits).all():
                raise method_problem(part, "counted_in_vain", allowed, found.tolist())
        in_vain.append(found)
    return np.unique(np.concatenate(in_vain))


@dataclass(frozen=True)
class Allocation(Part):
    """How much CPU, memory and storage a job gets with each of its GPUs."""

    slots: ClassVar[tuple[str, ...]] = ("allocation",)

    def resource_options(self, snapshot: Snapshot, jobs: Jobs) -> Ints:
        """Acceptable needs a GPU, best first: jobs x rungs x resources, in millionths.

        One line serves all jobs where all are alike; `PROPORTIONAL` is the share of whatever node is tried.
        """
        raise NotImplementedError


def options_of(part: Allocation, snapshot: Snapshot, jobs: Jobs) -> Ints:
    """The amounts of an allocation for these jobs, jobs x rungs x resources; anything else is refused."""
    options: Any = part.resource_options(snapshot, jobs)
    allowed = f"allowed: an array of int64 of shape (1 or {len(jobs)}, rungs, {RESOURCE_COUNT})"
    if not isinstance(options, np.ndarray):
        raise method_problem(part, "resource_options", allowed, type(options).__name__)
    right = options.ndim == 3 and len(options) in (1, len(jobs)) and options.shape[1] > 0
    if options.dtype != np.int64 or not right or options.shape[2] != RESOURCE_COUNT:
        found = f"{options.dtype} of shape {options.shape}"
        raise method_problem(part, "resource_options", allowed, found)
    return np.ascontiguousarray(options)


@dataclass(frozen=True)
class Placement(Part):
    """Where a job runs."""

    slots: ClassVar[tuple[str, ...]] = ("placement",)
    rule: ClassVar[int] = -1
    """One of the rules of `placement.job_columns`."""
    leases: ClassVar[bool] = False
    """Whether jobs hold their places on leases and wait for offers by delay timers (`placement.delay_timers`)."""

    def rules(self, snapshot: Snapshot) -> Ints:
        """The rule of each job of the view; one entry where all have the same."""
        return np.array([self.rule])


@dataclass(frozen=True)
class Backfill(Part):
    """Which jobs may start before others that wait for more."""

    slots: ClassVar[tuple[str, ...]] = ("backfill",)
    others: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By slot: the parts that it may be named with, the default first."""

    def scheduler(self, order: Order, parts: tuple[Part, ...], preset: str) -> Scheduler:
        """The scheduler that lets jobs start in an order, and past each other by this rule.

        `parts` are all parts as they are named, `preset` is the name under which they were asked for, if any.
        """
        raise NotImplementedError


def setting(default: Any, sentence: str) -> Any:
    """A field of a part that users may set, with the sentence that says what it does."""
    metadata = {"sentence": sentence}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def check_seconds(part: object, *names: str, finite: bool = False) -> None:
    """ValueError for one of these settings that is no number of seconds above 0; `finite` also refuses infinity."""
    for name in names:
        value = getattr(part, name)
        if not value > 0 or (finite and value == inf):
            raise ValueError(f"{name}: allowed: a number of seconds above 0")


def settings_of(part: Part) -> dict[str, Any]:
    """A part's settings by name, as the record keeps them: JSON knows no infinity, so that is None."""
    return {name: None if value == inf else value for name, value in vars(part).items()}


@dataclass(frozen=True)
class GangAllocator(Part):
    """How much each job gets and where it runs, decided together (Synergy's tune, opt)."""

    slots: ClassVar[tuple[str, ...]] = ("allocation", "placement")
    stable_when_queue_empty: ClassVar[bool] = True
    """Whether there is nothing to gain while no job waits, whichever job leaves."""
    by_order: ClassVar[bool] = False
    """Whether the order of those served matters to what each gets, and not only which they are."""
    spares_running: ClassVar[bool] = False
    """Whether a waiting job goes before a running one only by the order's margin: those that stop leave others worse
    places."""
    moves_for_others: ClassVar[bool] = False
    """Whether running jobs may be moved to make room: they count on all nodes that they may use, and not where they
    are, as an order serves them."""
    chooses_sizes: ClassVar[bool] = False
    """Whether it chooses how many GPUs elastic jobs have; it keeps to `Proposal.limits` then."""
    changes_amounts: ClassVar[bool] = True
    """Whether a job that keeps its GPUs may get other CPUs or memory while it runs."""
    resizes_alone: ClassVar[bool] = False
    """Whether it may leave all GPUs to leases and timers, and only decide what each job has beside them."""

    def settle(self, snapshot: Snapshot, proposal: Proposal) -> bool:
        """Write the changes that are best whatever the order of the jobs, if each job holds something then.

        Returns whether that is so, and stays so until a job comes or capacity changes; else nothing is written.
        """
        return False

    def allocate(self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools) -> None:
        """Write the changes into the proposal: stop, place, move, resize; and a reason for each position.

        `ranked` are the positions that may be served, best first; running jobs among them may be stopped unless
        they are chosen and pinned. `chosen` are those whose GPUs fit in all, by the walk in that order.
        """
        raise NotImplementedError

    def may_change_from(self, snapshot: Snapshot) -> Floats:
        """When each running job may be stopped, moved or get another size, by the multiple of its cost that counts."""
        return snapshot.jobs.protected_until

    def least_per_gpu(self, snapshot: Snapshot) -> Ints:
        """What each job holds beside a GPU at the least, by resource in millionths: a GPU's share, or its request.

        The share is that of the nodes with GPUs that the job may use.
        """
        nodes, jobs = snapshot.ledger.books.nodes, snapshot.jobs
        usable = (snapshot.table.node_allowed & (nodes["gpus"] > 0)).astype(np.int64)
        share = usable @ nodes["capacity"] // np.maximum(usable @ nodes["gpus"], 1)[:, None]
        share[:, BUILT_IN_COUNT:] = 0
        least: Ints = np.maximum(share[jobs.constraint], jobs.requested_per_gpu)
        return least


def described(name: str, parts: tuple[Part, ...], common: dict[str, Any]) -> dict[str, Any]:
    """Name, parts, their settings and those of the scheduler as a whole, for the record."""
    return {
        "name": name,
        "parts": {slot: part.name for part in parts for slot in part.slots},
        "settings": {part.name: settings_of(part) for part in parts if settings_of(part)} | common,
        "needs": sorted({need for part in parts for need in part.needs}),
    }


def named(parts: tuple[Part, ...]) -> str:
    """The name on the command line, every part spelled out."""
    return "+".join(part.name for part in parts)
