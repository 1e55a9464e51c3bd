"""What goes into a decision and what comes out of it, copied while it is there, and as a file."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from pydantic import TypeAdapter

import muster
from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation, node_allocations
from muster.cluster.ledger_arrays import DELAYED, EVEN_GANGS, FREE_ROW, NONE, ROWS_USED, Books, Ints
from muster.formatting import typed
from muster.problems import InputError, Problem
from muster.runtime.scheduler_memory import from_bytes, to_bytes
from muster.runtime.snapshots.columns import columns_of, plain
from muster.runtime.snapshots.decided import saved_decision
from muster.runtime.snapshots.file import (
    FORMAT,
    VERSION,
    Columns,
    SavedAllocation,
    SavedClasses,
    SavedJobs,
    SavedNames,
    SavedNetwork,
    SavedNodes,
    SavedScheduler,
    SnapshotFile,
)
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State
from muster.schedulers.registry import build
from muster.speed.demands import KnownClasses
from muster.speed.input_pipeline import ModelTable, model_table
from muster.speed.network.forms import PlacementShapes
from muster.speed.network.models import NetworkModel
from muster.workload.jobs import ASKED, FACTS, AskedArray, FactArray, JobTable
from muster.workload.models import Model
from muster.workload.sized import SIZED, SizedArray

Source = Literal["simulation", "service"]
OF_KIND, OF_ENDED = ("model", "tenant", "user", "gpus"), ("state", "attained", "run")
"""Columns of spec and status of the jobs that the scheduler is not asked about."""
KNOWN_SPEC = tuple(name for name in ASKED.names or () if name != "iterations")
KNOWN_STATUS = tuple(name for name in FACTS.names or () if name != "finish")
"""What a scheduler may know: not how much work a job really has, nor when it will be done."""
SIZED_OF_GANGS = ("priority", "urgency", "target", "loss", "target_loss")
"""Columns of what is sized that hold for gangs too: what their completion is worth, and the loss they train to."""
_WHERE = "snapshot"
MODEL = TypeAdapter(Model)
CLUSTER = TypeAdapter(Cluster)


@dataclass(frozen=True)
class TakenSnapshot:
    """Copies of all that a decision goes by."""

    snapshot: Snapshot
    """Its ledger and jobs may have changed since; only what never changes is read from it."""
    index: Ints
    """The jobs that the scheduler is asked about."""
    asked: AskedArray
    facts: FactArray
    sized: SizedArray
    books: Books
    """`heads` are of the jobs of `index` alone."""
    held_back: tuple[NodeAllocation, ...]
    models: ModelTable
    classes: KnownClasses
    state: bytes

    @classmethod
    def of(cls, snapshot: Snapshot, state: bytes) -> Self:
        """Copies of a snapshot and of its scheduler's memory; they cost what is held and waits, not all that ended."""
        table, ledger, index = snapshot.table, snapshot.ledger, snapshot.jobs.index
        books = ledger.books
        return cls(
            snapshot,
            index,
            table.asked[index],
            table.facts[index],
            table.sized[index],
            books._replace(
                nodes=books.nodes.copy(),
                devices=books.devices.copy(),
                rows=books.rows[: books.totals[ROWS_USED]].copy(),
                heads=books.heads[index],
                totals=books.totals.copy(),
            ),
            ledger.all_held_back,
            snapshot.resource_profiles.models,
            snapshot.resource_profiles.known,
            state,
        )

    def file(self, scheduler: Scheduler, decision: Decision, source: Source) -> SnapshotFile:
        """The snapshot as a file. InputError if something that the decision goes by cannot be written."""
        snapshot, table = self.snapshot, self.snapshot.table
        if snapshot.size_speeds is not None:
            what = "speeds that jobs have shown on other sizes are part of this decision, and no file has them yet"
            raise InputError(Problem(_WHERE, what))
        forms = snapshot.forms
        return SnapshotFile(
            format=FORMAT,
            version=VERSION,
            muster_version=muster.__version__,
            source=source,
            time=snapshot.now,
            triggers=snapshot.triggers,
            resize_restarts=snapshot.resize_restarts,
            keeps_amounts=snapshot.keeps_amounts,
            scheduler=self._scheduler(scheduler),
            cluster=plain(CLUSTER.dump_python(self.cluster, mode="json")),
            nodes=self._nodes(),
            names=self._names(),
            models=[
                None if one is None else plain(MODEL.dump_python(one, mode="json")) for one in table.models
            ],
            speeds_by_gpu_type=_speeds_by_gpu_type(self.models, table, self.cluster),
            classes=SavedClasses(**self.classes._asdict()),
            network=None if forms is None else _network(forms),
            jobs=self._jobs(),
            holds={
                str(job): [self._saved(one) for one in shares] for job, shares in self._allocations.items()
            },
            decision=saved_decision(decision, self.index, table, self, self.cluster),
        )

    @property
    def cluster(self) -> Cluster:
        """The machines."""
        return self.snapshot.cluster

    def holding(self, job: int) -> tuple[NodeAllocation, ...]:
        """What a job held."""
        return self._allocations.get(job, ())

    def _scheduler(self, scheduler: Scheduler) -> SavedScheduler:
        _check_memory(self.state, scheduler)
        return SavedScheduler(
            name=scheduler.name,
            settings=settings_of_scheduler(scheduler),
            state=base64.b64encode(self.state).decode(),
        )

    @cached_property
    def _allocations(self) -> dict[int, tuple[NodeAllocation, ...]]:
        """By number of the job, what it holds."""
        heads = zip(self.index.tolist(), self.books.heads.tolist(), strict=True)
        return {
            job: node_allocations(self.books.rows[_chain(self.books, head)])
            for job, head in heads
            if head >= 0
        }

    def _nodes(self) -> SavedNodes:
        books, names = self.books, [node.name for node in self.cluster.nodes]
        busy = np.argwhere(books.devices["busy"] != 0).tolist()
        return SavedNodes(
            down=[names[node] for node in np.flatnonzero(books.nodes["up"] == 0).tolist()],
            held_back=[self._saved(one) for one in self.held_back],
            releasing=[self._saved(one) for one in self._releasing()],
            busy=[(names[node], gpu, float(books.devices[node, gpu]["busy"])) for node, gpu in busy],
            even_gangs=bool(books.totals[EVEN_GANGS]),
            delayed_release=bool(books.totals[DELAYED]),
        )

    def _releasing(self) -> tuple[NodeAllocation, ...]:
        """What no job holds any more and is not free yet: the rows that are neither held, held back nor free."""
        books = self.books
        if not books.totals[DELAYED]:
            return ()
        used = np.ones(len(books.rows), np.bool_)
        for head in (*books.heads.tolist(), int(books.totals[FREE_ROW])):
            used[_chain(books, head)] = False
        return node_allocations(books.rows[used])

    def _names(self) -> SavedNames:
        table, names = self.snapshot.table, np.array([node.name for node in self.cluster.nodes])
        return SavedNames(
            models=list(table.model_names),
            tenants=list(table.tenants),
            users=list(table.users),
            partitions=list(table.partitions),
            qos=list(table.qos),
            constraints=[names[allowed].tolist() for allowed in table.node_allowed],
        )

    def _jobs(self) -> SavedJobs:
        """Columns of the jobs. Of work only the seconds of an iteration are known."""
        table = self.snapshot.table
        spec = self.asked.copy()
        spec["ideal"] = spec["ideal"] / spec["iterations"]
        return SavedJobs(
            numbers=len(table),
            names_are_numbers=bool(len(table)) and bool((table.id_ranks != np.arange(len(table))).any()),
            some_pinned=table.some_pinned,
            some_request=table.some_request,
            number=self.index.tolist(),
            id=table.ids.gather(self.index).to_list(),
            spec=columns_of(spec, KNOWN_SPEC),
            status=columns_of(self.facts, KNOWN_STATUS),
            sized=columns_of(self.sized, (SIZED.names or ()) if self.asked["sync"].any() else SIZED_OF_GANGS),
            ring_seconds=plain(table.ring_seconds),
            others=self._others(),
        )

    def _others(self) -> Columns:
        """What is known of jobs that were there before; those that ended before the decision do not change any more."""
        table = self.snapshot.table
        here = table.asked["submit"] <= self.snapshot.now
        here[self.index] = False
        number = np.flatnonzero(here)
        spec, status = table.asked[number], table.facts[number]
        return {"number": plain(number), **columns_of(spec, OF_KIND), **columns_of(status, OF_ENDED)}

    def _saved(self, one: NodeAllocation) -> SavedAllocation:
        return SavedAllocation(**vars(one.on(self.cluster.nodes[one.node].name)))


def settings_of_scheduler(scheduler: Scheduler, named: str = "") -> dict[str, str]:
    """The settings that make this scheduler of its name, or of another name, where they are not the defaults.

    A scheduler that Muster cannot make of its name, as a user's own class, has none here.
    """
    try:
        usual = _flat(build(named or scheduler.name).describe().get("settings", {}))
    except InputError:
        return {}
    own = _flat(scheduler.describe().get("settings", {}))
    return {
        name: "inf" if value is None else typed(value)
        for name, value in own.items()
        if value != usual.get(name)
    }


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by `part.setting`, and those of the scheduler as a whole by their names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{setting}": one for setting, one in value.items()}
        else:
            flat[name] = value
    return flat


def _check_memory(state: bytes, scheduler: Scheduler) -> None:
    """Refuse a memory that could not be read again: one with classes that are not Muster's."""
    unread = object()
    if from_bytes(state, scheduler.name, unread) is unread:
        what = (
            "its memory has objects that a file cannot carry; allowed: numbers, texts, containers, arrays and "
            "classes of muster.schedulers"
        )
        raise InputError(Problem("--scheduler", what, found=scheduler.name))


def memory_of(state: State, scheduler: Scheduler) -> bytes:
    """A scheduler's memory as bytes. InputError if it cannot be written."""
    try:
        return to_bytes(state, scheduler.name)
    except Exception as error:
        what = f"its memory cannot be written: {type(error).__name__}: {error}"
        raise InputError(Problem("--scheduler", what, found=scheduler.name)) from error


def _chain(books: Books, head: int) -> list[int]:
    return list(_rows_of(books, head))


def _rows_of(books: Books, head: int) -> Iterator[int]:
    while head != NONE:
        yield head
        head = int(books.rows[head]["next"])


def _speeds_by_gpu_type(models: ModelTable, table: JobTable, cluster: Cluster) -> bool:
    """Whether speeds differ by type of GPU; InputError if they are not those of the table's models at all."""
    count = len(table.models)
    for by_type in (True, False):
        made = model_table(table.models or [None], cluster.gpu_types if by_type else ())
        if made[:count].tobytes() == models[:count].tobytes():
            return by_type
    raise InputError(Problem(_WHERE, "the speeds of models do not follow from their files in this run"))


def _network(forms: PlacementShapes) -> SavedNetwork:
    speed = forms.speed
    if speed is None:
        return SavedNetwork(models=[], flavour="", congestion=0.0)
    models = [None if one is None else _network_model(one) for one in speed.models]
    return SavedNetwork(
        models=models, flavour=speed.flavour, congestion=speed.congestion, contention=forms.contention
    )


def _network_model(model: NetworkModel) -> dict[str, Any]:
    """The numbers of a network model, and which of the forms it is."""
    return {"form": type(model).__name__, **plain(asdict(model))}
