"""The living jobs as a scheduler's columns, growing as jobs come; a job's number is its id in the store.

Numbers are for ever, as a scheduler's memory goes by them: the columns of a job that has ended stay until the daemon
ends, at about half a kilobyte a job. Of numbers that had ended before it began there is room in memory that is never
touched. Nothing here goes through all numbers when a job comes or a plan is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, nan
from types import MappingProxyType

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.cluster.ledger import Changes, Ledger, NodeAllocation
from muster.cluster.ledger_arrays import MICRO, NONE, ROWS_USED
from muster.cluster.resources import RESOURCES
from muster.cluster.structured import zero_records
from muster.problems import InputError
from muster.runtime import lifecycle as keep
from muster.runtime.allocation_lifecycle import (
    HELD,
    PENDING_INTERVAL,
    RESTART_MODEL,
    HeldArray,
    LifecycleReport,
    PendingArray,
    RestartModel,
)
from muster.schedulers.contract import Decision, Ints
from muster.service.controller.interruptions import LONGEST_START_UP, RestartCosts
from muster.service.fitting import misfits
from muster.service.learned_sizes import LearnedSizes
from muster.service.request import DEFAULT_RESTART_COST_SECONDS
from muster.service.store.rows import JobRow, Phase, State
from muster.speed.demands import ResourceProfiles
from muster.speed.input_pipeline import model_table
from muster.speed.network.forms import PlacementShapes
from muster.speed.network_of_jobs import network_of_jobs
from muster.speed.rates import reference_seconds
from muster.workload.jobs import (
    ASKED,
    COMPLETED,
    FACTS,
    FUTURE,
    WAITING,
    AskedArray,
    FactArray,
    JobTable,
    nodes_allowed,
)
from muster.workload.models import Model
from muster.workload.sized import SIZED, SizedArray

UNKNOWN_STEPS = 1e15
"""Stands for the work of a job whose owner did not say it; schedulers see that nothing is known."""
_LEAST_ROOM = 1024


class _LiveTable(JobTable):
    """The jobs so far; its `ids` go on beyond them."""

    @cached_property
    def some_pinned(self) -> bool:
        """There may be some: who asked would have to go through all jobs that ever were."""
        return True

    @cached_property
    def some_request(self) -> bool:
        """There may be some, likewise."""
        return True


class LiveColumns:
    """Spec and status of the jobs as a scheduler sees them, with the ledger and the speeds."""

    def __init__(
        self,
        cluster: Cluster,
        known: Callable[[], Mapping[str, Model]],
        restart_cost_seconds: float = DEFAULT_RESTART_COST_SECONDS,
        *,
        resize_restarts: bool = False,
        any_gpus: bool = False,
        even_gangs: bool = False,
        if_unstated: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`resize_restarts`: a job that gets other CPUs or memory is stopped and started again.

        `any_gpus`: the engine chooses the GPUs of a node, so the ledger's ids only count them.
        `even_gangs`: a job has the same amounts on each of its nodes.
        `if_unstated`: what a job requests for each of its GPUs where it states nothing.
        """
        self._if_unstated = if_unstated
        self._any_gpus = any_gpus
        self.cluster = cluster
        self.ledger = Ledger(cluster, 0, even_gangs=even_gangs)
        self._even_gangs = even_gangs
        self.laws: RestartModel = zero_records(1, RESTART_MODEL)
        self.laws["checkpoint_every"] = inf
        self.laws["resize_restarts"] = resize_restarts
        self.laws["end_at_limit"] = True
        self._known = known
        self.restart_costs = RestartCosts(restart_cost_seconds)
        self.learned_sizes = LearnedSizes()
        self._numbers: dict[str, dict[str, int]] = {
            "model": {},
            "tenant": {},
            "user": {},
            "constraint": {"": 0},
        }
        self._models_by_name: Mapping[str, Model] = {}
        self._profiles: list[Model | None] = []
        self._allowed = [np.ones(len(cluster.nodes), np.bool_)]
        self.plan: dict[int, tuple[NodeAllocation[str], ...]] = {}
        """What each job should hold: the ledger's rows with the names of nodes. Only methods of this class write it."""
        self.misfits: set[int] = set()
        """Jobs that no state of the cluster could hold; it was another one when they were taken."""
        self._fits: dict[tuple[object, ...], bool] = {}
        self._spec: AskedArray = zero_records(0, ASKED)
        self._status: FactArray = zero_records(0, FACTS)
        self._sized: SizedArray = zero_records(0, SIZED)
        self._ids = pl.Series("job_id", [], pl.String)
        self._before = np.zeros(0, np.int64)
        """Scratch of `settle_journal`, which leaves it as it was."""
        self._count = 0
        self._share = cluster.share_per_gpu
        self._speeds_changed()
        self._table_changed()
        self._places_changed()

    @property
    def status(self) -> FactArray:
        """Status of each job, by its number."""
        return self._status[: self._count]

    @property
    def spec(self) -> AskedArray:
        """Spec of each job, by its number."""
        return self._spec[: self._count]

    def admit(self, rows: Sequence[JobRow]) -> None:
        """Write columns of these jobs of the store; columns that exist are written again."""
        if not rows:
            return
        self._make_room(max(row.id for row in rows) + 1)
        profiles = len(self._profiles)
        changed = self._look_up_models()
        for row in rows:
            self._write(row)
        new_speeds = changed or len(self._profiles) > profiles
        if new_speeds:
            self._speeds_changed()
        if changed:
            self._estimate_again()
        for row in rows:
            self._estimate(row)
        self._table_changed()
        if new_speeds:
            self._places_changed()

    def _fits_in(self, row: JobRow) -> bool:
        """Whether this cluster could hold it, if it held nothing else."""
        request = row.request
        # All that `misfits` goes by.
        shape = (request.constraint, request.gpus, row.gpu_bounds[0], *request.least_amounts.items())
        if shape not in self._fits:
            found = misfits(request, self.cluster, even_gangs=self._even_gangs, fixed_gpus=row.fixed_gpus)
            self._fits[shape] = next(found, None) is None
        return self._fits[shape]

    def _make_room(self, count: int) -> None:
        if count > len(self._spec):
            room = max(2 * count, _LEAST_ROOM)
            for name in ("_spec", "_status", "_sized"):
                before = getattr(self, name)
                grown = np.zeros(room, before.dtype)
                grown[: self._count] = before[: self._count]
                setattr(self, name, grown)
            self._ids = pl.Series("job_id", np.arange(room)).cast(pl.String)
            self._before = np.full(room, -2)
            self.ledger.admit(room)
        self._count = max(self._count, count)

    def _write(self, row: JobRow) -> None:
        request = row.request
        spec, status = self._spec[row.id], self._status[row.id]
        spec["submit"] = row.submitted
        spec["milli"] = request.gpu_milli
        self._write_sizes(row)
        spec["model"] = self._model(request.model or "")
        spec["tenant"] = self._number("tenant", request.tenant or "")
        spec["user"] = self._number("user", row.user)
        spec["constraint"] = self._constraint(request.constraint)
        spec["priority"] = request.priority
        spec["preemptible"] = row.preemptible
        spec["min_runtime"] = request.min_runtime_seconds
        spec["deadline"] = inf if row.deadline is None else row.deadline
        spec["time_limit"] = inf if request.time_limit_seconds is None else request.time_limit_seconds
        spec["iterations"] = UNKNOWN_STEPS if request.steps is None else request.steps
        spec["believed"] = nan
        status["state"] = _STATUS_STATES.get(row.state, COMPLETED)
        status["done"] = status["saved"] = row.steps_done
        status["attained"] = row.attained_gpu_seconds
        status["run"] = row.run_seconds
        status["preemptions"], status["moves"] = row.preemptions, row.moves
        status["first_start"] = nan if row.first_start is None else row.first_start
        status["last_start"] = nan if row.last_start is None else row.last_start
        status["last_stop"] = row.submitted if row.last_stop is None else row.last_stop
        status["finish"] = status["lease_end"] = inf
        status["sensitivity"] = nan
        status["reason"] = NONE
        status["restart_cost"] = self.restart_cost(row)
        status["unsaved_since"] = nan
        if not self._fits_in(row):
            self.misfits.add(row.id)
        self._sized[row.id]["priority"] = nan
        self.keeps_its_nodes(row)
        self.learned_sizes.learn(row)

    def _write_sizes(self, row: JobRow) -> None:
        spec, least = self._spec[row.id], row.request.stating(self._if_unstated).least_amounts
        spec["gpus"] = row.usual_gpus
        spec["min_gpus"], spec["max_gpus"] = row.gpu_bounds
        each = row.usual_gpus / row.request.gpus if row.request.gpus else 1.0
        spec["requested"] = [
            round(least[one.name] * each * MICRO) if one.name in least else NONE for one in RESOURCES
        ]

    def _number(self, kind: str, name: str) -> int:
        return self._numbers[kind].setdefault(name, len(self._numbers[kind]))

    def _model(self, name: str) -> int:
        number = self._number("model", name)
        if number == len(self._profiles):
            self._profiles.append(self._models_by_name.get(name.lower()))
        return number

    def _look_up_models(self) -> bool:
        """Whether `muster profile` has measured a model since jobs came last."""
        known = self._known()
        if known is self._models_by_name:
            return False
        self._models_by_name = known
        before = self._profiles
        self._profiles = [known.get(name.lower()) for name in self._numbers["model"]]
        return self._profiles != before

    def _estimate_again(self) -> None:
        """Estimate the length of jobs that have not shown their own speed again, by the models known now."""
        asked_for = self.spec["iterations"] > 0
        unshown = asked_for & (self.status["state"] != COMPLETED) & (self.status["done"] <= 0)
        for job in np.flatnonzero(unshown).tolist():
            spec = self._spec[job]
            spec["ideal"] = spec["iterations"] * self._reference_seconds(job)
            if self._profiles[spec["model"]] is not None:
                self._length_is_known(job)

    def _constraint(self, constraint: str) -> int:
        number = self._number("constraint", constraint)
        if number == len(self._allowed):
            try:
                allowed = np.array(nodes_allowed(constraint, self.cluster, "request"))
            except InputError:  # The cluster is another one than when the job was taken.
                allowed = np.zeros(len(self.cluster.nodes), np.bool_)
            self._allowed.append(allowed)
        return number

    def _speeds_changed(self) -> None:
        self.models = model_table(self._profiles or [None], self.cluster.gpu_types)
        self.resource_profiles = ResourceProfiles(self.models, self.ledger.books.nodes)

    def _places_changed(self) -> None:
        """Say how fast the places of a cluster of several racks are, for jobs whose models say how they communicate."""
        network = network_of_jobs(self.table, self.cluster)
        self.forms = None if network is None else PlacementShapes(network, self.cluster, contention=True)
        """As in a simulation; None: all places are alike."""

    def _estimate(self, row: JobRow) -> None:
        """How long it takes at the reference: by what it did so far, else by its model; else unknown."""
        spec = self._spec[row.id]
        spec["ideal"] = spec["iterations"] * self._reference_seconds(row.id)
        worked = row.on_usual_gpus(row.run_seconds - row.restart_seconds)
        # Of the starts that have ended, as these seconds are.
        done = row.steps_done if row.phase is Phase.NONE else row.steps_before
        measured = done > 0 and worked > 0
        if measured:
            spec["ideal"] = spec["iterations"] * worked / done
        if measured or self._profiles[spec["model"]] is not None:
            self._length_is_known(row.id)

    def _length_is_known(self, job: int) -> None:
        """Let schedulers use the length of a job, if its owner has stated its steps."""
        spec = self._spec[job]
        if spec["iterations"] < UNKNOWN_STEPS:
            spec["believed"] = spec["iterations"]

    def _reference_seconds(self, job: int) -> float:
        """Seconds of a step with a proportional share, by the job's model."""
        return reference_seconds(self.models, int(self._spec[job]["model"]), self._share)

    def _table_changed(self) -> None:
        self.table = _LiveTable(
            asked=self.spec,
            facts=self.status,
            sized=self._sized[: self._count],
            ids=self._ids,
            model_names=tuple(self._numbers["model"]),
            models=tuple(self._profiles),
            tenants=tuple(self._numbers["tenant"]),
            users=tuple(self._numbers["user"]),
            node_allowed=np.array(self._allowed),
        )

    def restart_cost(self, row: JobRow) -> float:
        """Seconds of stop and start-up that an interruption of a job is expected to cost."""
        return self.restart_costs.expected(row, self._models_by_name)

    def place(self, job: int, allocations: Sequence[NodeAllocation[str]], now: float) -> None:
        """Put a job into the ledger where it is known to run; DoesNotFit if the cluster has no such place any more."""
        numbers = self.cluster.node_index
        shares = [here.on(numbers.get(here.node, len(numbers))) for here in allocations]
        if self._any_gpus:
            shares = [self._on_free_gpus(share) for share in shares]
        self.ledger.put(job, shares)
        self._settle(now)
        self._read_plan(job)

    def _on_free_gpus(self, share: NodeAllocation) -> NodeAllocation:
        """The same amounts on as many GPUs as are free on the node; unchanged where it has too few, or is none."""
        free = self.ledger.free_ids(share.node) if share.node < len(self.cluster.nodes) else ()
        count = len(share.gpu_ids)
        return replace(share, gpu_ids=free[:count]) if len(free) >= count else share

    def carry_out(self, changes: Changes, now: float) -> None:
        """Give the jobs of a decision what it says. What is planned runs only once `began` says so."""
        self.ledger.carry_out(changes)
        self._settle(now)
        for job in changes.jobs.tolist():
            self._read_plan(job)

    def _read_plan(self, job: int) -> None:
        nodes = self.cluster.nodes
        self.plan.pop(job, None)
        if self.ledger.holds(job):
            self.plan[job] = tuple(here.on(nodes[here.node].name) for here in self.ledger.holding(job))

    def _settle(self, now: float) -> None:
        books, outcome = self.ledger.books, self._outcome()
        keep.settle_journal(books, self.spec, self.status, self.models, now, self.laws, self._before, outcome)

    def _outcome(self) -> LifecycleReport:
        """Room for what the steps report, which nothing here reads."""
        held: HeldArray = zero_records(int(self.ledger.books.totals[ROWS_USED]) + 1, HELD)
        return LifecycleReport(held, np.zeros(1, np.int64), np.zeros(6, np.int64))

    def not_begun(self, job: int, now: float) -> None:
        """A job has a new place where nothing of it runs yet: it is charged nothing so far."""
        status = self._status[job]
        status["held"] = status["rate"] = 0.0
        status["settled"] = now
        status["finish"] = status["resumes"] = inf

    def counts_as_running(self, job: int, now: float) -> None:
        """Show a job that waits for its place as running: a scheduler must not give its GPUs to another job."""
        status = self._status[job]
        status["held"] = sum(here.gpus for here in self.plan[job])
        status["settled"] = now

    def began(self, row: JobRow, since: float) -> None:
        """A start of a job has begun on what the ledger says; its speed is the model's until it reports its own."""
        status = self._status[row.id]
        status["held"] = status["rate"] = 0.0
        status["settled"] = status["last_start"] = since
        if np.isnan(status["first_start"]):
            status["first_start"] = since
        self.price(row, since)
        keep.set_rate(self.ledger.books, self.spec, self.status, row.id, self.models, since, self.laws)

    def price(self, row: JobRow, since: float) -> None:
        """Update what an interruption costs of a start that began at `since`, as its job shows more of it.

        A job that has reported before works from its first step on, at the latest after `LONGEST_START_UP` times the
        expected cost; any other one, once the expected cost has passed.
        """
        spec, status = self._spec[row.id], self._status[row.id]
        spec["preemptible"] = row.preemptible
        status["restart_cost"] = self.restart_cost(row)
        status["unsaved_since"] = nan if row.saves_when_stopped else since
        if row.first_step is not None:
            status["resumes"] = row.first_step
        else:
            has_reported = row.joined or row.start_up_seconds is not None
            status["resumes"] = since + status["restart_cost"] * (LONGEST_START_UP if has_reported else 1.0)

    def reported(self, row: JobRow, now: float) -> None:
        """A running job has reported how far it is and how fast: its report counts for more than the model.

        Of the model only the ratio is kept between its speed on what the job holds and the one at the reference; that
        of a job that has shown its speed on several sizes is its own.
        """
        status, spec = self._status[row.id], self._spec[row.id]
        keep.settle(self.status, row.id, now, self.laws)
        status["done"] = min(row.steps_done, spec["iterations"])
        if row.steps_per_second > 0:
            keep.set_rate(self.ledger.books, self.spec, self.status, row.id, self.models, now, self.laws)
            slower = status["rate"] / row.steps_per_second if status["rate"] > 0 else 1.0
            seconds = self._reference_seconds(row.id) * slower
            held = sum(len(here.gpu_ids) for here in self.plan.get(row.id, ()))
            if row.size_steps and held:
                usual_over = self.learned_sizes.usual_over(row, held, self.cluster.most_gpus_per_node)
                seconds = seconds if usual_over is None else usual_over / row.steps_per_second
            spec["ideal"] = spec["iterations"] * seconds
            status["rate"] = row.steps_per_second
            self._length_is_known(row.id)

    def keeps_place(self, row: JobRow, *, stays: bool) -> None:
        """Whether a running job makes room for no other one, whatever its owner allows."""
        self._spec[row.id]["preemptible"] = row.preemptible and not stays

    def reprioritize(self, row: JobRow) -> None:
        """Another priority is asked for a job."""
        self._spec[row.id]["priority"] = row.request.priority

    def keeps_its_size(self, row: JobRow, now: float) -> None:
        """From now on a job has a fixed number of GPUs; if another one is planned, it waits for a new decision."""
        self._write_sizes(row)
        self._estimate(row)
        if sum(len(here.gpu_ids) for here in self.plan.get(row.id, ())) not in (0, row.fixed_gpus):
            self.waiting(row.id, now)

    def keeps_its_nodes(self, row: JobRow) -> None:
        """A job goes on only on as many nodes as it has now, if it has shown that."""
        self._spec[row.id]["exact_nodes"] = len(row.fixed_nodes)

    def allow_nodes(self, job: int, constraint: str, only: Sequence[str] | None = None) -> None:
        """Let a job on the nodes of a constraint, or of these only on some; the table may be another one then."""
        known = len(self._allowed)
        of_constraint = self._constraint(constraint)
        number = of_constraint
        if only is not None:
            number = self._number("constraint", f"{constraint} on {' '.join(sorted(only))}")
            if number == len(self._allowed):
                named = np.isin([node.name for node in self.cluster.nodes], only)
                self._allowed.append(self._allowed[of_constraint] & named)
        self._spec[job]["constraint"] = number
        if len(self._allowed) > known:
            self._table_changed()

    def charged(self, row: JobRow, now: float) -> None:
        """A start of a job has ended: what it got in all, to the last second."""
        status = self._status[row.id]
        status["done"], status["attained"], status["run"] = (
            row.steps_done,
            row.attained_gpu_seconds,
            row.run_seconds,
        )
        status["settled"] = status["last_stop"] = now
        status["held"] = status["rate"] = 0.0
        status["finish"] = inf

    def set_lease_end(self, job: int, end: float) -> None:
        """When a job is to give back what it holds; infinite: at no certain time."""
        self._status[job]["lease_end"] = end

    def note_reasons(self, index: Ints, decision: Decision, now: float) -> PendingArray:
        """Note why jobs wait from now on; the pending intervals that end."""
        ended: PendingArray = zero_records(len(index), PENDING_INTERVAL)
        reasons = decision.reasons, decision.reason_a, decision.reason_b
        count = keep.note_reasons(self.status, index, *reasons, now, ended)
        return ended[:count]

    def release(self, job: int) -> None:
        """A held job competes again."""
        self._status[job]["state"] = WAITING

    def leave(self, job: int, state: State, now: float) -> None:
        """A job that is held or has ended gives back all that it holds in the ledger."""
        books = self.ledger.books
        if books.heads[job] >= 0:
            keep.settle(self.status, job, now, self.laws)
            keep.close_job(books, job, now, self._outcome())
        self.plan.pop(job, None)
        self._status[job]["held"] = self._status[job]["rate"] = 0.0
        self._status[job]["state"] = _STATUS_STATES.get(state, COMPLETED)

    def waiting(self, job: int, now: float) -> None:
        """A job that waits from now on, holding nothing."""
        self.leave(job, State.QUEUED, now)
        self._status[job]["last_stop"] = now


_STATUS_STATES: Mapping[State, int] = {State.QUEUED: WAITING, State.RUNNING: WAITING, State.HELD: FUTURE}
