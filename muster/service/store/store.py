"""The store: what owners ask, what the controller writes, and what can be read of both."""

from __future__ import annotations

import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Table,
    bindparam,
    case,
    cast,
    delete,
    false,
    func,
    insert,
    select,
    type_coerce,
    update,
)

from muster.service.store import encoding
from muster.service.store.database import Database
from muster.service.store.rows import (
    ENDED,
    PRIORITY,
    AllocationInterval,
    Event,
    Holder,
    JobLabel,
    JobRow,
    JobSearch,
    NodeRow,
    NumberedEvent,
    PendingInterval,
    QueuedDemand,
    SessionRow,
    State,
    StateRequest,
    StepsDone,
    StoreChanges,
    Submission,
    TenantUse,
    TokenRow,
    UserUse,
    Version,
)
from muster.service.store.state_requests import check_living, checked_state_request
from muster.service.store.tables import (
    ALLOCATION_INTERVALS,
    CONFIGURATIONS,
    DECISIONS,
    EVENTS,
    JOBS,
    NODES,
    PENDING_INTERVALS,
    SCHEDULER,
    SESSIONS,
    STEPS_DONE,
    STORE,
    TOKENS,
)

MOST_AT_ONCE = 10_000
"""Jobs that one call of `after` gives."""
_PIECE = 5000
"""Rows of a long history that are read at a time."""
ValueT = TypeVar("ValueT")
_BOOTED = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
"""Unix seconds, as the clock had it when this process began."""
_SET_SECONDS = 0.05
"""From which on the machine's clock was set; less is what lies between two readings."""
_VERSION = select(STORE.c.turn, STORE.c.next_job, select(func.max(EVENTS.c.id)).scalar_subquery())
_SESSION = (
    select(SESSIONS)
    .outerjoin(TOKENS)
    .where(
        (SESSIONS.c.hash == bindparam("hash"))
        & (SESSIONS.c.until > bindparam("now"))
        & TOKENS.c.revoked.is_(None)
    )
)
"""Each page asks for both, so they are made once."""
_OF_DECISION = [column for column in DECISIONS.c if column.name != "id"]
_LIVING = JOBS.c.state.in_(sorted(set(State) - ENDED))


class Store:
    """What must survive the daemon. Any thread may call; one controller writes. Got from `Store.open`.

    Whatever is written is on the disk when its call returns; `StoreUnavailable` means that none of it is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.origin = database.origin
        """Unix seconds when the store was made: the zero of all times in it."""
        self._other_changes = 0
        """What this process has changed that `version` would not show otherwise."""
        self._in_doubt: tuple[StoreChanges, int] | None = None
        """What was to be written last, and the number of its turn, if it is not known whether it was."""
        self._known: dict[Callable[[], Any], tuple[Version, Any]] = {}
        """What was computed last, each in the version of its last question."""
        self._served: tuple[int, tuple[tuple[float, int], ...]] = (0, ())
        """The last row of configurations that was read, and the GPUs of them all."""

    @classmethod
    def open(cls, url: str, *, make: bool = True) -> Store:
        """The store at `sqlite:///PATH` or `postgresql://...`, made or brought up to date where needed.

        Without `make` it has to be there.
        """
        return cls(Database(url, make=make))

    def claimed(self) -> AbstractContextManager[None]:
        """Claim the store for one daemon while the body runs. InputError if another one has it."""
        return self._database.claimed()

    def keep_claim(self) -> None:
        """For the daemon that has claimed it, before each turn: a server forgets claims when it ends.

        StoreTaken if another one has claimed it meanwhile.
        """
        self._database.keep_claim()

    def together(self) -> AbstractContextManager[None]:
        """Let this thread read the state of one moment in the body."""
        return self._database.together()

    def now(self) -> float:
        """Seconds since the store was made; they go on alike where the machine's clock is set."""
        return _BOOTED + time.clock_gettime(time.CLOCK_BOOTTIME) - self.origin

    def at(self, moment: float) -> float:
        """Return when a moment of the machine's clock was, as it is set now, in seconds since the store was made."""
        set_by = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - _BOOTED
        return moment - self.origin - (set_by if abs(set_by) >= _SET_SECONDS else 0.0)

    def close(self) -> None:
        """Ends its connections."""
        self._database.close()

    # What owners ask.

    def submit(self, submissions: Sequence[Submission]) -> list[int]:
        """Queues jobs, all or none; their ids, which count up by 1 from 1."""
        if not submissions:
            return []
        with self._database.writing() as connection:
            # The row's lock makes submissions of other processes wait, so ids become visible in their order.
            taken = STORE.c.next_job + len(submissions)
            end = connection.execute(update(STORE).values(next_job=taken).returning(STORE.c.next_job))
            first = end.scalar_one() - len(submissions)
            ids = list(range(first, first + len(submissions)))
            now = self.now()
            rows = [
                encoding.of_submission(job, submission, now)
                for job, submission in zip(ids, submissions, strict=True)
            ]
            connection.execute(insert(JOBS), rows)
        return ids

    def request_state(self, job: int, requested: StateRequest, by: str = "") -> JobRow | None:
        """Notes a request for a job; None: there is no such job. InputError if the job does not accept it."""
        with self._database.writing() as connection:
            found = connection.execute(select(JOBS).where(JOBS.c.id == job).with_for_update()).first()
            if found is None:
                return None
            row = encoding.job_row(found)
            if row.state_request != checked_state_request(row, requested):
                connection.execute(update(JOBS).where(JOBS.c.id == job).values(state_request=requested))
                noted = Event(job, self.now(), requested, f"asked by {by}" if by else "asked")
                connection.execute(insert(EVENTS), [vars(noted)])
            return encoding.job_row(connection.execute(select(JOBS).where(JOBS.c.id == job)).one())

    def set_priority(self, job: int, priority: float, by: str) -> JobRow | None:
        """Changes what a job asks for; None: there is no such job. InputError if it has ended."""
        with self._database.writing() as connection:
            found = connection.execute(select(JOBS).where(JOBS.c.id == job).with_for_update()).first()
            if found is None:
                return None
            row = encoding.job_row(found)
            check_living(row)
            before = row.request.priority
            if priority != before:
                asked = json.dumps(json.loads(found.request) | {"priority": priority})
                connection.execute(update(JOBS).where(JOBS.c.id == job).values(request=asked))
                words = f"{priority:g} instead of {before:g}, asked by {by}"
                connection.execute(insert(EVENTS), [vars(Event(job, self.now(), PRIORITY, words))])
            return encoding.job_row(connection.execute(select(JOBS).where(JOBS.c.id == job)).one())

    def drain(self, node: str, drained: bool) -> NodeRow:
        """Notes that nothing shall start on a node, or that it may again."""
        with self._database.writing() as connection:
            connection.execute(delete(NODES).where(NODES.c.name == node))
            connection.execute(insert(NODES).values(name=node, drained=drained))
        self._other_changes += 1
        return NodeRow(node, drained)

    # What can be read.

    def _of_this_version(self, computed: Callable[[], ValueT]) -> ValueT:
        """What a method without arguments computes, once for each version of the store."""
        with self.together():
            version = self.version()
            known = self._known.get(computed)
            if known is None or known[0] != version:
                self._known[computed] = known = (version, computed())
        found: ValueT = known[1]
        return found

    def version(self) -> Version:
        """What differs whenever anything but tokens and sessions has changed; read it before what it stands for."""
        other = self._other_changes
        with self._database.reading() as connection:
            row = connection.execute(_VERSION).one()
        return Version(row[2] or 0, row[1] - 1, row[0], other)

    def job(self, job: int) -> JobRow | None:
        """Return one job; None: there is none of this number."""
        with self._database.reading() as connection:
            found = connection.execute(select(JOBS).where(JOBS.c.id == job)).first()
        return None if found is None else encoding.job_row(found)

    def job_of_engine(self, key: str) -> JobRow | None:
        """The job that was submitted to the engine under this name; None: it is not Muster's yet."""
        with self._database.reading() as connection:
            found = connection.execute(select(JOBS).where(JOBS.c.engine_key == key)).first()
        return None if found is None else encoding.job_row(found)

    def jobs(
        self,
        states: Collection[State] | None = None,
        user: str | None = None,
        name: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> list[JobRow]:
        """Jobs by id, from the first one after `after` on."""
        chosen = select(JOBS).where(JOBS.c.id > after).order_by(JOBS.c.id).limit(limit)
        if states is not None:
            chosen = chosen.where(JOBS.c.state.in_(sorted(states)))
        if user is not None:
            chosen = chosen.where(JOBS.c.user == user)
        if name is not None:
            chosen = chosen.where(JOBS.c.name == name)
        return self._job_rows(chosen)

    def search(self, search: JobSearch) -> tuple[list[JobRow], int]:
        """A page of the jobs that are searched for, and how many there are in all."""
        chosen = [condition for condition in _conditions(search) if condition is not None]
        column = JOBS.c[search.order]
        order = (column.desc(), JOBS.c.id.desc()) if search.descending else (column, JOBS.c.id)
        page = select(JOBS).where(*chosen).order_by(*order).offset(search.offset).limit(search.limit)
        with self.together(), self._database.reading() as connection:
            total = connection.execute(select(func.count()).select_from(JOBS).where(*chosen)).scalar_one()
            return [encoding.job_row(row) for row in connection.execute(page)], total

    def counts(self) -> Mapping[State, int]:
        """How many jobs are in each state."""
        return self._of_this_version(self._counts)

    def _counts(self) -> Mapping[State, int]:
        with self._database.reading() as connection:
            found = connection.execute(select(JOBS.c.state, func.count()).group_by(JOBS.c.state)).all()
        counted = {State(state): count for state, count in found}
        return MappingProxyType(dict.fromkeys(State, 0) | counted)

    def waiting_demand(self) -> Mapping[str, QueuedDemand]:
        """What the queued jobs ask for: `gpus`, and `cpus` and `memory_gb` where they state these.

        Each job of a long queue is read for it.
        """
        return self._of_this_version(self._sum_of_demand)

    def _sum_of_demand(self) -> Mapping[str, QueuedDemand]:
        with self._database.reading() as connection:
            asked = {
                name: _asked_number(connection, name)
                for name in ("gpus", "gpu_share", "cpus", "memory_gb", "own_memory_gb")
            }
            chosen = select(JOBS.c.fixed_gpus, *(one.label(name) for name, one in asked.items()))
            columns = chosen.where(JOBS.c.state == State.QUEUED).subquery().c
            gpus = func.coalesce(columns.fixed_gpus, columns.gpus)
            # Amounts are for `gpus`, and go along with the GPUs that it keeps.
            scale = case((columns.gpus > 0, gpus / columns.gpus), else_=1.0)
            memory, own = columns.memory_gb, columns.own_memory_gb
            most_memory = case((func.coalesce(own, 0.0) > func.coalesce(memory, 0.0), own), else_=memory)
            amounts = {
                "gpus": gpus * func.coalesce(columns.gpu_share, 1.0),
                "cpus": columns.cpus * scale,
                "memory_gb": most_memory * scale,
            }
            figures = [
                figure
                for one in amounts.values()
                for figure in (func.coalesce(func.sum(one), 0.0), func.count(case((one > 0, 1))))
            ]
            row = connection.execute(select(*figures)).one()
        return {
            name: QueuedDemand(round(float(row[2 * at]), 6), row[2 * at + 1])
            for at, name in enumerate(amounts)
        }

    def restart_costs(self, most: int) -> list[tuple[str, str, float]]:
        """User, name, and measured seconds of start-up and stop of the newest jobs that show them, oldest first."""
        seconds = JOBS.c.start_up_seconds + func.coalesce(JOBS.c.stop_seconds, 0.0)
        chosen = select(JOBS.c.user, JOBS.c.name, seconds).where(JOBS.c.start_up_seconds.is_not(None))
        with self._database.reading() as connection:
            found = connection.execute(chosen.order_by(JOBS.c.id.desc()).limit(most)).all()
        return [(user, name, cost) for user, name, cost in reversed(found)]

    def with_size_steps(self, most: int) -> list[JobRow]:
        """The newest jobs that have measured their steps on sizes that they have had, oldest first."""
        chosen = select(JOBS).where(JOBS.c.size_steps != "[]").order_by(JOBS.c.id.desc()).limit(most)
        with self._database.reading() as connection:
            return [encoding.job_row(row) for row in reversed(connection.execute(chosen).all())]

    def count_living(self, user: str | None = None, tenant: str | None = None) -> int:
        """How many jobs of a user, or of a tenant, have not ended."""
        chosen = select(func.count()).select_from(JOBS).where(_LIVING)
        if user is not None:
            chosen = chosen.where(JOBS.c.user == user)
        with self._database.reading() as connection:
            if tenant is not None:
                chosen = chosen.where(_asked(connection, "tenant") == tenant)
            return int(connection.execute(chosen).scalar_one())

    def nodes(self) -> list[NodeRow]:
        """The nodes that were ever drained."""
        with self._database.reading() as connection:
            found = connection.execute(select(NODES).order_by(NODES.c.name)).all()
        return [NodeRow(row.name, row.drained) for row in found]

    def events(self, job: int) -> list[Event]:
        """A job's history, its submission first."""
        with self._database.reading() as connection:
            submitted = connection.scalar(select(JOBS.c.submitted).where(JOBS.c.id == job))
            chosen = select(EVENTS).where(EVENTS.c.job == job).order_by(EVENTS.c.id)
            found = connection.execute(chosen).all()
        if submitted is None:
            return []
        noted = [Event(row.job, row.time, row.kind, row.detail) for row in found]
        return [Event(job, submitted, "submitted"), *noted]

    def newest_event(self) -> int:
        """The number of the last line of any job's history; 0: there is none."""
        with self._database.reading() as connection:
            return connection.scalar(select(func.max(EVENTS.c.id))) or 0

    def events_after(self, number: int, limit: int, since: float = -math.inf) -> list[NumberedEvent]:
        """Lines of all jobs' histories that were written after this one, at `since` or later, in their order."""
        chosen = select(EVENTS, JOBS.c.user).join(JOBS).where(EVENTS.c.id > number, EVENTS.c.time >= since)
        with self._database.reading() as connection:
            found = connection.execute(chosen.order_by(EVENTS.c.id).limit(limit)).all()
        return [
            NumberedEvent(row.id, row.user, Event(row.job, row.time, row.kind, row.detail)) for row in found
        ]

    def pending_intervals(self) -> Iterator[PendingInterval]:
        """What every job waited for, read in pieces."""
        chosen = select(PENDING_INTERVALS).order_by(PENDING_INTERVALS.c.id)
        return map(encoding.pending_interval, self._in_pieces(chosen))

    def steps_done(self, job: int) -> list[StepsDone]:
        """How far a job was over time, in the order of its reports."""
        columns = STEPS_DONE.c
        chosen = select(columns.job, columns.epoch, columns.time, columns.steps).where(columns.job == job)
        with self._database.reading() as connection:
            return [StepsDone(*row) for row in connection.execute(chosen.order_by(columns.id))]

    def allocation_intervals(
        self, job: int | Collection[int] | None = None, open_only: bool = False
    ) -> list[AllocationInterval]:
        """What a job, some jobs or every job has and had; with `open_only` what of it is held now."""
        chosen = select(ALLOCATION_INTERVALS).order_by(ALLOCATION_INTERVALS.c.id)
        if job is not None:
            jobs = (job,) if isinstance(job, int) else job
            chosen = chosen.where(ALLOCATION_INTERVALS.c.job.in_(jobs))
        if open_only:
            chosen = chosen.where(ALLOCATION_INTERVALS.c.until.is_(None))
        with self._database.reading() as connection:
            return [encoding.allocation_interval(row) for row in connection.execute(chosen)]

    def every_allocation_interval(self) -> Iterator[AllocationInterval]:
        """What every job has and had, read in pieces."""
        chosen = select(ALLOCATION_INTERVALS).order_by(ALLOCATION_INTERVALS.c.id)
        return map(encoding.allocation_interval, self._in_pieces(chosen))

    def held_now(self) -> Sequence[AllocationInterval]:
        """What all jobs hold, in the order of its beginnings."""
        return self._of_this_version(self._held)

    def _held(self) -> Sequence[AllocationInterval]:
        return tuple(self.allocation_intervals(open_only=True))

    def held_between(self, since: float, until: float, limit: int) -> list[AllocationInterval]:
        """What was held within this time, the newest `limit` of it, in the order of its beginnings."""
        ends = ALLOCATION_INTERVALS.c.until
        within = (ALLOCATION_INTERVALS.c.since < until) & (ends.is_(None) | (ends > since))
        chosen = select(ALLOCATION_INTERVALS).where(within).order_by(ALLOCATION_INTERVALS.c.id.desc())
        with self._database.reading() as connection:
            found = connection.execute(chosen.limit(limit)).all()
        return [encoding.allocation_interval(row) for row in reversed(found)]

    def labels_of(self, jobs: Collection[int]) -> Mapping[int, JobLabel]:
        """Whose each of these jobs is, what it is called, and what has become of it."""
        columns = JOBS.c
        with self._database.reading() as connection:
            asked = [_asked(connection, name).label(name) for name in ("model", "tenant")]
            chosen = select(columns.id, columns.user, columns.name, columns.state, columns.finished, *asked)
            return {
                row.id: JobLabel(row.user, row.name, State(row.state), row.finished, row.model, row.tenant)
                for row in connection.execute(chosen.where(columns.id.in_(jobs)))
            }

    def events_of(self, jobs: Collection[int], kinds: Collection[str], since: float) -> list[Event]:
        """Lines of these kinds in the histories of these jobs, of `since` or later, in their order."""
        columns = EVENTS.c
        within = columns.job.in_(jobs) & columns.kind.in_(sorted(kinds)) & (columns.time >= since)
        with self._database.reading() as connection:
            found = connection.execute(select(EVENTS).where(within).order_by(columns.id)).all()
        return [Event(row.job, row.time, row.kind, row.detail) for row in found]

    def use_by_user(self) -> list[UserUse]:
        """What each user has had so far, by name."""
        columns = JOBS.c
        chosen = select(
            columns.user,
            func.count().label("jobs"),
            *(
                func.sum(case((columns.state == state, 1), else_=0)).label(state.value)
                for state in (State.RUNNING, State.QUEUED)
            ),
            *(
                func.sum(columns[name]).label(name)
                for name in ("attained_gpu_seconds", "run_seconds", "restart_seconds")
            ),
        )
        with self._database.reading() as connection:
            found = connection.execute(chosen.group_by(columns.user).order_by(columns.user)).mappings()
            return [UserUse(**row) for row in found]

    def use_by_tenant(self, user: str | None) -> list[TenantUse]:
        """What a user's jobs have had so far, or those of all users, and what they hold, by tenant."""
        with self.together(), self._database.reading() as connection:
            asked = _asked(connection, "tenant")
            jobs = select(JOBS.c.state, JOBS.c.attained_gpu_seconds, func.coalesce(asked, "").label("tenant"))
            columns = (jobs if user is None else jobs.where(JOBS.c.user == user)).subquery().c
            counts = (
                func.sum(case((columns.state == state, 1), else_=0)).label(state.value)
                for state in (State.RUNNING, State.QUEUED, State.HELD)
            )
            attained = func.sum(columns.attained_gpu_seconds).label("attained_gpu_seconds")
            chosen = select(columns.tenant, func.count().label("jobs"), *counts, attained)
            found = connection.execute(chosen.group_by(columns.tenant).order_by(columns.tenant)).mappings()
            uses = [TenantUse(**row) for row in found]
            whose = self.holders(user)
            gpus: dict[str, float] = defaultdict(float)
            for interval in self.held_now():
                if interval.job in whose:
                    gpus[whose[interval.job].tenant or ""] += interval.allocation.gpus
        return [replace(use, held_gpus=gpus[use.tenant]) for use in uses]

    def holders(self, user: str | None) -> Mapping[int, Holder]:
        """A user's jobs that hold something now, or those of all users."""
        found = self._of_this_version(self._holders)
        return found if user is None else {job: one for job, one in found.items() if one.user == user}

    def _holders(self) -> Mapping[int, Holder]:
        is_open = ALLOCATION_INTERVALS.c.until.is_(None)
        open_ones = select(ALLOCATION_INTERVALS.c.job).where(is_open)
        with self._database.reading() as connection:
            asked = [_asked(connection, name).label(name) for name in ("model", "tenant")]
            chosen = select(JOBS.c.id, JOBS.c.user, JOBS.c.name, *asked).where(JOBS.c.id.in_(open_ones))
            found = connection.execute(chosen)
            return MappingProxyType(
                {row.id: Holder(row.user, row.name, row.model, row.tenant) for row in found}
            )

    def decisions(self, *, with_changes: bool = False) -> Iterator[Mapping[str, float | None]]:
        """Every decision, read in pieces, by the columns of `runtime.records.DECISIONS`; with `with_changes` those that
        start, stop or change a job."""
        columns = DECISIONS.c
        chosen = select(*_OF_DECISION).order_by(columns.id)
        if with_changes:
            chosen = chosen.where((columns.started != 0) | (columns.stopped != 0) | (columns.changed != 0))
        names = [column.name for column in _OF_DECISION]
        return (dict(zip(names, row, strict=True)) for row in self._in_pieces(chosen))

    def some_decisions(self, since: float, most: int) -> list[Mapping[str, float | None]]:
        """At most so many of the decisions from then on, at even distances, with the first and the last of them.

        The database leaves out the others, of which a long history has millions.
        """
        later = DECISIONS.c.time_seconds >= since
        with self.together(), self._database.reading() as connection:
            count: int = connection.execute(select(func.count()).where(later)).scalar_one()
            step = max(1, -(-(count - 1) // (most - 1)))
            place = func.row_number().over(order_by=DECISIONS.c.id).label("place")
            columns = select(*_OF_DECISION, place).where(later).subquery().c
            chosen = select(*(columns[one.name] for one in _OF_DECISION)).order_by(columns.place)
            is_chosen = ((columns.place - 1) % step == 0) | (columns.place == count)
            return [dict(row) for row in connection.execute(chosen.where(is_chosen)).mappings()]

    def configurations(self) -> list[tuple[float, Mapping[str, Any]]]:
        """What the daemon has served, each with the moment from which on; in order."""
        with self._database.reading() as connection:
            found = connection.execute(select(CONFIGURATIONS).order_by(CONFIGURATIONS.c.id)).all()
        return [(row.since, json.loads(row.content)) for row in found]

    def served_gpus(self) -> Sequence[tuple[float, int]]:
        """How many GPUs the clusters had that were served, each with the moment from which on; in order.

        Each row is read once, as it has all nodes.
        """
        last, served = self._served
        newer = select(CONFIGURATIONS).where(CONFIGURATIONS.c.id > last).order_by(CONFIGURATIONS.c.id)
        with self._database.reading() as connection:
            for row in connection.execute(newer):
                nodes = json.loads(row.content)["cluster"]["nodes"]
                last, served = row.id, (*served, (row.since, sum(node["gpus"] for node in nodes)))
        self._served = (last, served)
        return served

    def engine(self) -> str | None:
        """The kind of engine whose starts these jobs have; None: of none yet."""
        with self._database.reading() as connection:
            return connection.scalar(select(STORE.c.engine))

    # The controller's side.

    def newest(self) -> int:
        """The largest id that a job was ever given."""
        with self._database.reading() as connection:
            next_one: int = connection.execute(select(STORE.c.next_job)).scalar_one()
        return next_one - 1

    def skip_to(self, job: int) -> None:
        """Gives no id up to this one any more: jobs that this store does not know have had them."""
        with self._database.writing() as connection:
            connection.execute(update(STORE).where(STORE.c.next_job <= job).values(next_job=job + 1))

    def configure(self, content: Mapping[str, Any], since: float) -> None:
        """Notes what is served from then on, unless it is what was served last."""
        text = json.dumps(content, sort_keys=True)
        newest = select(CONFIGURATIONS.c.content).order_by(CONFIGURATIONS.c.id.desc()).limit(1)
        with self._database.writing() as connection:
            if connection.scalar(newest) != text:
                connection.execute(insert(CONFIGURATIONS).values(since=since, content=text))

    def bind_engine(self, name: str) -> None:
        """Bind the store to an engine: its jobs run there only."""
        with self._database.writing() as connection:
            connection.execute(update(STORE).values(engine=name))

    def living(self) -> list[JobRow]:
        """Return all jobs that have not ended."""
        return self._job_rows(select(JOBS).where(_LIVING).order_by(JOBS.c.id))

    def after(self, job: int) -> list[JobRow]:
        """Jobs that were submitted later, the first 10,000 of them."""
        return self.jobs(after=job, limit=MOST_AT_ONCE)

    def state_requests(self) -> list[JobRow]:
        """Jobs that have not ended and of which something is wanted."""
        # "Not ended" rather than "living": for the latter SQLite would go through all that wait, by their state.
        requested = JOBS.c.state_request.is_not(None) & JOBS.c.state.not_in(sorted(ENDED))
        return self._job_rows(select(JOBS).where(requested).order_by(JOBS.c.id))

    def with_new_priority(self, after: int, until: int) -> list[JobRow]:
        """Living jobs whose priority was changed between these lines of the histories."""
        lines = (EVENTS.c.id > after) & (EVENTS.c.id <= until) & (EVENTS.c.kind == PRIORITY)
        chosen = select(JOBS).where(JOBS.c.id.in_(select(EVENTS.c.job).where(lines)), _LIVING)
        return self._job_rows(chosen.order_by(JOBS.c.id))

    def scheduler_state(self) -> bytes | None:
        """What the scheduler keeps between decisions."""
        with self._database.reading() as connection:
            return connection.scalar(select(SCHEDULER.c.state))

    def commit(self, changes: StoreChanges) -> None:
        """Writes all of it in one transaction; StoreTaken if another daemon has claimed the store.

        If a server vanishes meanwhile, it is not known whether they were written. The same changes may be committed
        again until a commit succeeds; they are written once.
        """
        if not changes:
            return
        with self._database.writing() as connection:
            chosen = select(STORE.c.claim, STORE.c.turn).with_for_update()
            claim, turn = connection.execute(chosen).one()
            self._database.check_claim(claim)
            if self._in_doubt is None or self._in_doubt[0] is not changes or self._in_doubt[1] != turn:
                self._in_doubt = (changes, turn + 1)
                connection.execute(update(STORE).values(turn=turn + 1))
                _write(connection, changes)
        self._in_doubt = None

    # What ended long ago.

    def ended_before(self, moment: float, after: int, limit: int) -> list[JobRow]:
        """Jobs that had ended by then, by id, from the first one after `after` on."""
        ended = JOBS.c.state.in_(sorted(ENDED)) & (JOBS.c.finished < moment) & (JOBS.c.id > after)
        return self._job_rows(select(JOBS).where(ended).order_by(JOBS.c.id).limit(limit))

    def forget(self, jobs: Collection[int]) -> None:
        """Remove those of these jobs that have ended, with their history; their numbers are not used again."""
        ended = select(JOBS.c.id).where(JOBS.c.id.in_(jobs), JOBS.c.state.in_(sorted(ENDED)))
        with self._database.writing() as connection:
            for table in (EVENTS, STEPS_DONE, PENDING_INTERVALS, ALLOCATION_INTERVALS):
                connection.execute(delete(table).where(table.c.job.in_(ended)))
            connection.execute(delete(JOBS).where(JOBS.c.id.in_(ended)))
        self._other_changes += 1

    def forget_decisions(self, before: float, most: int) -> int:
        """The oldest decisions that were taken before then; how many there were, of so many at most."""
        oldest = select(DECISIONS.c.id).where(DECISIONS.c.time_seconds < before).order_by(DECISIONS.c.id)
        with self._database.writing() as connection:
            return connection.execute(
                delete(DECISIONS).where(DECISIONS.c.id.in_(oldest.limit(most)))
            ).rowcount

    # Tokens.

    def add_token(self, user: str, operator: bool, hashed: str) -> TokenRow:
        """Stores a new token and returns its row."""
        values = {"user": user, "operator": operator, "hash": hashed, "created": self.now()}
        with self._database.writing() as connection:
            row = connection.execute(insert(TOKENS).values(values).returning(TOKENS)).one()
        return encoding.token(row)

    def revoke(self, token: int) -> TokenRow | None:
        """Ends a token's use; None: there is none of this id."""
        chosen = TOKENS.c.id == token
        with self._database.writing() as connection:
            fresh = chosen & TOKENS.c.revoked.is_(None)
            connection.execute(update(TOKENS).where(fresh).values(revoked=self.now()))
            row = connection.execute(select(TOKENS).where(chosen)).first()
        return None if row is None else encoding.token(row)

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, including revoked ones."""
        with self._database.reading() as connection:
            return [encoding.token(row) for row in connection.execute(select(TOKENS).order_by(TOKENS.c.id))]

    # Sessions in browsers.

    def open_session(self, session: SessionRow) -> None:
        """Keeps a new session, and forgets those that are over."""
        with self._database.writing() as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.until <= self.now()))
            connection.execute(insert(SESSIONS), [vars(session)])

    def session(self, hashed: str) -> SessionRow | None:
        """The session of this hash; None: there is none, it is over, or its token was revoked."""
        with self._database.reading() as connection:
            row = connection.execute(_SESSION, {"hash": hashed, "now": self.now()}).first()
        return None if row is None else SessionRow(row.hash, row.user, row.operator, row.token, row.until)

    def close_session(self, hashed: str) -> None:
        """Ends a session, if there is one of this hash."""
        with self._database.writing() as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.hash == hashed))

    def _in_pieces(self, chosen: Any) -> Iterator[Any]:
        """Rows of which only some thousands are in memory at a time."""
        with self._database.reading() as connection:
            yield from connection.execute(chosen, execution_options={"yield_per": _PIECE})

    def _job_rows(self, chosen: Any) -> list[JobRow]:
        with self._database.reading() as connection:
            return [encoding.job_row(row) for row in connection.execute(chosen)]


def _asked(connection: Connection, field: str) -> ColumnElement[str]:
    """A text of the request, or null."""
    asked: ColumnElement[str] = _request(connection)[field].as_string()
    return asked


def _asked_number(connection: Connection, field: str) -> ColumnElement[float]:
    """A number of the request, or null."""
    asked: ColumnElement[float] = _request(connection)[field].as_float()
    return asked


def _request(connection: Connection) -> Any:
    # SQLite reads JSON from a text, PostgreSQL only from its own type.
    coerce = type_coerce if connection.dialect.name == "sqlite" else cast
    return coerce(JOBS.c.request, JSON)


def _conditions(search: JobSearch) -> Iterator[ColumnElement[bool] | None]:
    """What a job must be to be found; None: anything."""
    if search.text:
        named = JOBS.c.name.icontains(search.text, autoescape=True)
        number = JOBS.c.id == int(search.text) if re.fullmatch(r"[0-9]{1,18}", search.text) else false()
        yield named | JOBS.c.user.icontains(search.text, autoescape=True) | number
    yield None if search.states is None else JOBS.c.state.in_(sorted(search.states))
    yield None if search.user is None else JOBS.c.user == search.user
    yield None if search.submitted_since is None else JOBS.c.submitted >= search.submitted_since
    yield None if search.submitted_until is None else JOBS.c.submitted < search.submitted_until


def _write(connection: Connection, changes: StoreChanges) -> None:
    _change_jobs(connection, changes)
    _add(
        connection, ALLOCATION_INTERVALS, [encoding.of_allocation_interval(entry) for entry in changes.opened]
    )
    _correct_allocations(connection, changes)
    _add(connection, DECISIONS, [_known_figures(row) for row in changes.decisions])
    _add(connection, PENDING_INTERVALS, [encoding.of_pending_interval(entry) for entry in changes.pending])
    _add(connection, EVENTS, [vars(entry) for entry in changes.events])
    _add(connection, STEPS_DONE, [entry._asdict() for entry in changes.steps])
    if changes.scheduler_state is not None:
        connection.execute(delete(SCHEDULER))
        connection.execute(insert(SCHEDULER).values(id=1, state=changes.scheduler_state))


def _change_jobs(connection: Connection, changes: StoreChanges) -> None:
    """Fields of jobs, their state requests, and the ends of what they held."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for job, fields in changes.jobs.items():
        values = encoding.of_job_fields(fields)
        alike[tuple(sorted(values))].append({"of": job} | {f"new_{name}": values[name] for name in values})
    alike.pop((), None)
    for names, rows in alike.items():
        changed = update(JOBS).where(JOBS.c.id == bindparam("of"))
        connection.execute(changed.values({name: bindparam(f"new_{name}") for name in names}), rows)
    if changes.carried_out:
        left = case((JOBS.c.state_request == bindparam("done"), None), else_=JOBS.c.state_request)
        done = [{"of": job, "done": requested} for job, requested in changes.carried_out.items()]
        connection.execute(update(JOBS).where(JOBS.c.id == bindparam("of")).values(state_request=left), done)
    if changes.closed:
        columns = ALLOCATION_INTERVALS.c
        of_start = (columns.job == bindparam("of")) & (columns.epoch == bindparam("start"))
        ended = update(ALLOCATION_INTERVALS).where(of_start & columns.until.is_(None))
        rows = [{"of": job, "start": epoch, "end": end} for (job, epoch), end in changes.closed.items()]
        connection.execute(ended.values(until=bindparam("end")), rows)


def _correct_allocations(connection: Connection, changes: StoreChanges) -> None:
    """Write what a start really has into its open intervals."""
    columns = ALLOCATION_INTERVALS.c
    rows = [
        {
            "of": job,
            "start": epoch,
            "on": here.node,
            "ids": json.dumps(here.gpu_ids),
            "cores": here.cpus,
            "memory": here.memory_gb,
        }
        for (job, epoch), allocations in changes.really_held.items()
        for here in allocations
    ]
    if rows:
        chosen = (columns.job == bindparam("of")) & (columns.epoch == bindparam("start"))
        chosen &= (columns.node == bindparam("on")) & columns.until.is_(None)
        correct = update(ALLOCATION_INTERVALS).where(chosen)
        correct = correct.values(
            gpu_ids=bindparam("ids"), cpus=bindparam("cores"), memory_gb=bindparam("memory")
        )
        connection.execute(correct, rows)


def _add(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _known_figures(row: Mapping[str, float | None]) -> dict[str, float | None]:
    """A figure that is not known is null in a database, and so is one that a decision does not give."""
    given = {column.name: row.get(column.name) for column in DECISIONS.c if column.name != "id"}
    return {name: None if value is None or math.isnan(value) else value for name, value in given.items()}
