"""A snapshot file as what a scheduler is asked with: the same arrays, built again and checked."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError

from muster.cluster import Cluster
from muster.cluster.ledger import DoesNotFit, Ledger, NodeAllocation
from muster.cluster.ledger_arrays import DELAYED, ENTRIES, NONE, WHOLE, Ints
from muster.cluster.ledger_steps import release_job, take_down
from muster.cluster.resources import FURTHER, RESOURCE_COUNT
from muster.cluster.structured import zero_records
from muster.problems import InputError, Problem
from muster.runtime.scheduler_memory import from_bytes
from muster.runtime.snapshots.columns import array_of, records_of
from muster.runtime.snapshots.file import MOST_OF_A_NODE, SavedAllocation, SnapshotFile
from muster.runtime.snapshots.taken import CLUSTER, MODEL, OF_ENDED, OF_KIND
from muster.schedulers.contract import Jobs, Scheduler, Snapshot, State
from muster.speed.demands import KnownClasses, ResourceProfiles
from muster.speed.input_pipeline import ModelTable, model_table
from muster.speed.network.dimensions import FLAVOURS
from muster.speed.network.forms import PlacementShapes
from muster.speed.network.models import CompactModel, LayeredModel, MeasuredModel, NetworkModel
from muster.speed.network.speed import NetworkSpeed
from muster.workload.jobs import ASKED, FACTS, MOST_DOUBLINGS, STATES, JobTable
from muster.workload.sized import SIZED, SYNCS

_NETWORK_FORMS = {form.__name__: form for form in (LayeredModel, CompactModel, MeasuredModel)}


@dataclass(frozen=True)
class _RestoredTable(JobTable):
    """The jobs of a file; what holds of some of them may be due to those that are not in it."""

    pinned: bool = False
    request: bool = False

    @cached_property
    def some_pinned(self) -> bool:
        """As the file says."""
        return self.pinned

    @cached_property
    def some_request(self) -> bool:
        """As the file says."""
        return self.request


class RestoredSnapshot:
    """What is in a file, for a scheduler."""

    def __init__(self, file: SnapshotFile, where: str) -> None:
        """InputError, with the name `where`, if the file contradicts itself."""
        self._file, self._where = file, where
        self.cluster = self._cluster()
        self.table = self._table()
        self.ledger = self._ledger()

    def snapshot(self) -> Snapshot:
        """A snapshot for one decision."""
        file = self._file
        index = np.array(file.jobs.number, np.int64)
        speeds = model_table(
            self.table.models or [None], self.cluster.gpu_types if file.speeds_by_gpu_type else ()
        )
        return Snapshot(
            file.time,
            file.triggers,
            Jobs(self.table, index, file.time),
            self.table,
            self.ledger,
            self._profiles(speeds),
            self._forms(),
            resize_restarts=file.resize_restarts,
            keeps_amounts=file.keeps_amounts,
        )

    def _profiles(self, speeds: ModelTable) -> ResourceProfiles:
        """Demands, whose classes are numbered as they were."""
        saved, profiles = self._file.classes, ResourceProfiles(speeds, self.ledger.books.nodes)
        models = len(self._file.names.models)
        most = max(node.gpus for node in self.cluster.nodes) + 1
        for name, sizes in (
            ("sizes", saved.sizes),
            ("sizes_below_share", saved.sizes_below_share),
        ):
            if any(size[0] >= models for size in sizes):
                raise self._wrong(f"classes.{name}", f"allowed: numbers of models below {models}")
        profiles.learn(KnownClasses(list(saved.sizes), [], [], list(saved.sizes_below_share)))
        for name, classes, known in (
            ("classes", saved.classes, len(profiles.models)),
            ("below_share", saved.below_share, len(profiles.below_share.models)),
        ):
            if any(len(row) != 2 + RESOURCE_COUNT or row[0] >= known or row[1] > most for row in classes):
                what = f"allowed: a model below {known}, GPUs up to {most} and {RESOURCE_COUNT} amounts"
                raise self._wrong(f"classes.{name}", what)
        met, met_below = (list(map(tuple, rows)) for rows in (saved.classes, saved.below_share))
        profiles.learn(KnownClasses([], met, met_below, []))
        return profiles

    def state(self, scheduler: Scheduler) -> State:
        """What the scheduler remembered. InputError if it cannot be read."""
        unread = object()
        try:
            content = base64.b64decode(self._file.scheduler.state, validate=True)
        except binascii.Error:
            raise self._wrong("scheduler.state", "allowed: base 64") from None
        state = from_bytes(content, scheduler.name, unread)
        if state is unread:
            raise self._wrong(
                "scheduler.state", "allowed: the memory of this scheduler, of this release of Muster"
            )
        return state

    def _wrong(self, field: str, what: str, found: object = None) -> InputError:
        return InputError(Problem(self._where, what, column=field, found=found))

    def _cluster(self) -> Cluster:
        try:
            cluster: Cluster = CLUSTER.validate_python(self._file.cluster)
        except ValidationError as error:
            one = error.errors(include_url=False)[0]
            raise self._wrong("cluster." + ".".join(map(str, one["loc"])), one["msg"]) from None
        for node in cluster.nodes:
            if not all(0 <= amount <= MOST_OF_A_NODE for amount in node.amounts):
                raise self._wrong("cluster.nodes", "allowed: amounts from 0 to 1e12", node.name)
        return cluster

    def _table(self) -> JobTable:
        jobs, names = self._file.jobs, self._file.names
        count = jobs.numbers
        index = np.array(jobs.number, np.int64)
        self._check_numbers(index)
        asked, facts = zero_records(count, ASKED), zero_records(count, FACTS)
        # Jobs of which nothing is known are plain ones that are yet to come.
        asked["gpus"], asked["milli"], asked["preemptible"] = 1, WHOLE, 1
        facts["finish"], facts["lease_end"], facts["reason"] = np.inf, np.inf, NONE
        self._add_others(asked, facts)
        spec = records_of(jobs.spec, ASKED, len(index), "jobs.spec", self._where)
        spec["iterations"] = 1.0
        status = records_of(jobs.status, FACTS, len(index), "jobs.status", self._where)
        status["finish"] = np.inf
        asked[index], facts[index] = spec, status
        sized = zero_records(count, SIZED)
        sized[index] = records_of(jobs.sized, SIZED, len(index), "jobs.sized", self._where)
        self._check_spec(asked, facts)
        ids = [str(number) if jobs.names_are_numbers else f"other {number}" for number in range(count)]
        for number, name in zip(jobs.number, jobs.id, strict=True):
            ids[number] = name
        here = {node.name for node in self.cluster.nodes}
        for nodes in names.constraints:
            if strange := set(nodes) - here:
                raise self._wrong("names.constraints", "allowed: nodes of the cluster", sorted(strange)[0])
        allowed = [[node.name in set(nodes) for node in self.cluster.nodes] for nodes in names.constraints]
        rings = array_of(jobs.ring_seconds, self._like_rings(), "jobs.ring_seconds", self._where)
        return _RestoredTable(
            asked=asked,
            facts=facts,
            sized=sized,
            ids=pl.Series("job_id", ids, pl.String),
            model_names=tuple(names.models),
            models=tuple(self._models()),
            tenants=tuple(names.tenants),
            users=tuple(names.users),
            partitions=tuple(names.partitions),
            qos=tuple(names.qos),
            node_allowed=np.array(allowed, np.bool_).reshape(len(allowed), len(self.cluster.nodes)),
            ring_seconds=rings,
            pinned=jobs.some_pinned,
            request=jobs.some_request,
        )

    def _add_others(self, asked: Any, facts: Any) -> None:
        columns = self._file.jobs.others
        known = ("number", *OF_KIND, *OF_ENDED)
        if set(columns) != set(known):
            raise self._wrong("jobs.others", f"allowed: {', '.join(known)}, each of them", sorted(columns))
        like = np.zeros(len(columns["number"]), np.int64)
        number = array_of(columns["number"], like, "jobs.others.number", self._where)
        if len(number) and not 0 <= number.min() <= number.max() < self._file.jobs.numbers:
            raise self._wrong("jobs.others.number", f"allowed: numbers below {self._file.jobs.numbers}")
        for table, names in ((asked, OF_KIND), (facts, OF_ENDED)):
            for name in names:
                table[name][number] = array_of(
                    columns[name], table[name][number], f"jobs.others.{name}", self._where
                )

    def _like_rings(self) -> Any:
        rings = self._file.jobs.ring_seconds
        lines = len(rings[0]) if rings else 0
        return np.zeros((len(rings), lines, len(rings[0][0]) if lines else 0))

    def _models(self) -> list[Any]:
        models = []
        for at, fields in enumerate(self._file.models):
            try:
                models.append(None if fields is None else MODEL.validate_python(fields))
            except ValidationError as error:
                one = error.errors(include_url=False)[0]
                raise self._wrong(f"models.{at}.{'.'.join(map(str, one['loc']))}", one["msg"]) from None
        if len(models) != len(self._file.names.models):
            raise self._wrong("models", "allowed: one for each of names.models", len(models))
        return models

    def _check_numbers(self, index: Ints) -> None:
        """The numbers of jobs, which arrays are indexed with."""
        jobs = self._file.jobs
        if len(jobs.id) != len(index):
            raise self._wrong("jobs.id", "allowed: one for each of jobs.number", len(jobs.id))
        if len(np.unique(index)) != len(index) or (index >= jobs.numbers).any():
            raise self._wrong("jobs.number", f"allowed: different numbers below {jobs.numbers}")

    def _check_spec(self, asked: Any, facts: Any) -> None:
        """The columns that are places in other tables, or that compiled code counts up to."""
        names = self._file.names
        most = self.cluster.total_gpus
        bounds = {
            "model": (0, len(names.models)),
            "tenant": (0, len(names.tenants)),
            "user": (0, len(names.users)),
            "constraint": (0, len(names.constraints)),
            "partition": (0, len(names.partitions)),
            "qos": (0, len(names.qos)),
            "sync": (0, len(SYNCS)),
            "gpus": (0, 2**31),
            "min_gpus": (0, 2**31),
            "max_gpus": (0, max(2**31, most)),
            "nodes": (0, 2**31),
            "exact_nodes": (0, 2**31),
            "milli": (1, WHOLE + 1),
            "most_doublings": (0, MOST_DOUBLINGS + 1),
        }
        for name, (least, end) in bounds.items():
            wrong = (asked[name] < least) | (asked[name] >= end)
            if wrong.any():
                what = f"allowed: whole numbers from {least} to {end - 1}"
                raise self._wrong(f"jobs.spec.{name}", what, int(asked[name][wrong][0]))
        if ((facts["state"] < 0) | (facts["state"] >= len(STATES))).any():
            raise self._wrong("jobs.status.state", f"allowed: 0 to {len(STATES) - 1}")

    def _ledger(self) -> Ledger:
        """A ledger in which each job holds what the file says."""
        saved = self._file.nodes
        ghost = self._file.jobs.numbers
        ledger = Ledger(self.cluster, ghost + 1, even_gangs=saved.even_gangs)
        asked_about = {str(number): number for number in self._file.jobs.number}
        for number, shares in self._file.holds.items():
            if number not in asked_about:
                raise self._wrong(
                    "holds", "allowed: numbers of jobs that the scheduler is asked about", number
                )
            self._put(ledger, asked_about[number], shares, f"holds.{number}")
        ledger.books.totals[DELAYED] = saved.delayed_release
        if saved.releasing:
            self._put(ledger, ghost, saved.releasing, "nodes.releasing")
            release_job(ledger.reserve(0, 1), ghost)
        for at, one in enumerate(saved.held_back):
            ledger.hold_back(self._allocation(one, f"nodes.held_back.{at}"), any_gpus=False)
        ledger.books.totals[ENTRIES] = 0
        for name in saved.down:
            take_down(ledger.books, self._node(name, "nodes.down"))
        for name, gpu, busy in saved.busy:
            node = self._node(name, "nodes.busy")
            if gpu >= self.cluster.nodes[node].gpus:
                raise self._wrong("nodes.busy", f"allowed: GPUs of {name}", gpu)
            ledger.books.devices[node, gpu]["busy"] = busy
        return ledger

    def _put(self, ledger: Ledger, job: int, shares: Sequence[SavedAllocation], field: str) -> None:
        try:
            ledger.put(job, [self._allocation(one, field) for one in shares])
        except DoesNotFit as error:
            raise self._wrong(field, f"allowed: what is free on the nodes ({error})") from None

    def _allocation(self, one: SavedAllocation, field: str) -> NodeAllocation:
        if len(one.further) != len(FURTHER):
            what = f"allowed: {len(FURTHER)} amounts, as many further resources are installed here"
            raise self._wrong(f"{field}.further", what, len(one.further))
        node = self._node(one.node, f"{field}.node")
        if any(gpu >= self.cluster.nodes[node].gpus for gpu in one.gpu_ids):
            raise self._wrong(f"{field}.gpu_ids", f"allowed: GPUs of {one.node}", one.gpu_ids)
        amounts = (one.cpus, one.memory_gb, one.storage_gb_per_s, *one.further)
        if min(amounts) < 0 or not np.isfinite(amounts).all():
            raise self._wrong(field, "allowed: amounts from 0 on")
        values: Mapping[str, Any] = one.model_dump()
        return NodeAllocation(
            **{**values, "node": node, "gpu_ids": tuple(one.gpu_ids), "further": tuple(one.further)}
        )

    def _node(self, name: str, field: str) -> int:
        if name not in self.cluster.node_index:
            raise self._wrong(field, "allowed: nodes of the cluster", name)
        return self.cluster.node_index[name]

    def _forms(self) -> PlacementShapes | None:
        network = self._file.network
        if network is None:
            return None
        if not network.models:
            return PlacementShapes(None, self.cluster)
        if network.flavour not in FLAVOURS:
            raise self._wrong("network.flavour", f"allowed: {', '.join(FLAVOURS)}", network.flavour)
        if len(network.models) < len(self._file.names.models):
            raise self._wrong("network.models", "allowed: one for each of names.models", len(network.models))
        models = [None if one is None else self._network_model(one) for one in network.models]
        speed = NetworkSpeed(models, self.cluster, flavour=network.flavour, congestion=network.congestion)
        return PlacementShapes(speed, self.cluster, contention=network.contention)

    def _network_model(self, fields: Mapping[str, Any]) -> NetworkModel:
        form = _NETWORK_FORMS.get(str(fields.get("form")))
        if form is None:
            raise self._wrong(
                "network.models.form", f"allowed: {', '.join(_NETWORK_FORMS)}", fields.get("form")
            )
        values = {name: value for name, value in fields.items() if name != "form"}
        try:
            model = (
                self._layered(values) if form is LayeredModel else TypeAdapter(form).validate_python(values)
            )
        except (ValidationError, TypeError, ValueError) as error:
            raise self._wrong("network.models", f"allowed: the fields of {form.__name__} ({error})") from None
        return cast(NetworkModel, model)

    def _layered(self, values: Mapping[str, Any]) -> LayeredModel:
        base = values.get("profiled")
        read: dict[str, Any] = {
            name: np.array(value, np.float64) if isinstance(value, list) else value
            for name, value in values.items()
            if name != "profiled"
        }
        read["batch"], read["compute_scale"] = float(read["batch"]), float(read["compute_scale"])
        return LayeredModel(**read, profiled=None if base is None else self._layered(base))
