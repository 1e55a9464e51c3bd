"""Starts as jobs of a Slurm cluster.

A job of Muster is one job in Slurm, with one number for all its starts: submitted at its first start in its owner's
name, then requeued and held, rewritten and released for each next one. Slurm still checks that it fits, so a wrong
decision waits and takes nothing from others.

What happens if the daemon dies while a start is launched:

1. *Before its record is written*: nothing has happened, and it is launched again.
2. *Before Slurm has taken it*: the record says that it was not released. The next engine finds no such job in Slurm,
   or one that is still held, and drops the record; it is launched again. A job that Slurm took is found by its
   comment, so none is submitted twice.
3. *Before the record says that it was released*: the job is in Slurm and not held, which the next engine sees.

A number alone names no job: slurmctld forgets what it took within seconds of its death, and then uses the number again.
Nor does the time of its submission, which changes with every requeue. So the job's comment says whose it is.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from muster.cluster import Cluster
from muster.cluster.slurm_nodes import read_fields
from muster.service.engines.clocks import MachineClocks
from muster.service.engines.interface import (
    AdoptJob,
    CloseJob,
    Command,
    EngineCapabilities,
    EngineNode,
    EngineView,
    Exit,
    ForgetStart,
    KillStart,
    Launch,
    Observed,
    OwnerRequest,
    ReservedJob,
    ResizeStart,
    SendNotice,
    StartRefused,
    SubmittedJob,
    UntakenJob,
)
from muster.service.engines.parts import stop_file
from muster.service.engines.run_folders import ReadsRunFolders
from muster.service.engines.sequential import write_notice
from muster.service.engines.slurm.job_files import batch_script, passed_on, write_start, write_submitted_start
from muster.service.engines.slurm.nodes import addresses, engine_nodes, of_several_types
from muster.service.engines.slurm.outcome import LIVING, outcome
from muster.service.engines.slurm.records import Records, StartRecord, as_fields
from muster.service.engines.slurm.refusals import refusal, waiting_words
from muster.service.engines.slurm.requests import change
from muster.service.engines.slurm.shape import has_other_amounts, requested, rewritten
from muster.service.engines.slurm.status import (
    SlurmJob,
    read_details,
    read_jobs,
    read_marks,
    read_numbered,
    time_of_config,
    with_excluded,
)
from muster.service.engines.slurm.submitted import (
    OWN,
    Adopted,
    AdoptedJobs,
    NewJobs,
    gpu_type_of,
    own_comment,
)
from muster.service.store.rows import StateRequest
from muster.slurm_commands import SlurmCommands, SlurmError, explained
from muster.units import GB_PER_MIB
from muster.workload.jobs import GPU_TYPE

_OVER = ("Invalid job id", "already completing or completed", "not running")
"""What scancel says of a job that has just ended."""
_FORGOTTEN = "slurmctld was restarted and has forgotten this start"
_NOT_BY_MUSTER = "requeued in Slurm, not by Muster, as after a node has failed"
_PLACE_TAKEN = ("Resources", "ReqNodeNotAvail", "Nodes required")
"""How the reasons begin for which a job waits whose nodes are taken, drained or down."""
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH")
"""Variables of the daemon with which a node finds srun, and this Python its libraries. Others may be secret."""
_WRITERS = 16
"""Files that are written at a time: the disk flushes many together about as fast as one."""
_NODES_SECONDS = 2.0
"""Between two looks at the nodes."""
_CLOCK_SECONDS = 60.0
"""Between two looks at slurmctld's clock."""
_SLURMCTLD = "slurmctld"
"""Whose clock all of Slurm's times are."""
_ON_NODES = LIVING - {"PENDING"}
_SECOND = 1.01
"""With what the clock of Slurm's whole seconds may be behind by."""

log = structlog.get_logger()


class SlurmEngine(ReadsRunFolders):
    """Starts in one partition. To be used by one thread."""

    capabilities = EngineCapabilities(
        can_resize=False,
        runs_as_users=True,
        chooses_gpu_ids=True,
        shares_gpus=False,
        same_amounts_on_each_node=True,
        poll_seconds=0.5,
        pending_limit_seconds=10.0,
    )
    enforces = "Slurm: CPUs, memory and GPUs as the site has set it up"

    def __init__(
        self,
        folder: Path,
        partition: str,
        cluster: Cluster,
        commands: SlurmCommands,
        is_ours: Callable[[int, str], bool],
    ) -> None:
        """Find the starts that are there. OSError if Slurm cannot be reached.

        `is_ours` says of a job's number and its `Launch.whose` whether this Muster has such a job.
        """
        self._partition, self._cluster, self._commands = partition, cluster, commands
        self._records = Records(folder / "starts")
        self._adopted, self._new = AdoptedJobs(folder / "submitted"), NewJobs()
        self._rows: Mapping[int, SlurmJob] = self._in_other_partitions(is_ours)
        self._nodes: list[EngineNode] = []
        self._addresses: Mapping[str, str] = {}
        self._of_several_types: Set[str] = frozenset()
        """Nodes with GPUs of several types."""
        self._looked_at = self._clock_read_at = float("-inf")
        self._clocks = MachineClocks()
        self._passed_on = passed_on(self._read_clock())
        self._look()
        self._look_at_nodes()

    def carry_out(self, commands: Sequence[Command]) -> Sequence[Exception | None]:
        """Carry out a turn's commands: stops and ends first each by itself, then all launches by two scontrols."""
        errors: list[Exception | None] = [None] * len(commands)
        launches: list[tuple[int, Launch]] = []
        for at, command in enumerate(commands):
            if isinstance(command, Launch):
                launches.append((at, command))
                continue
            try:
                self._carry_out(command)
            except Exception as error:
                errors[at] = error
        failures = self._launch_all([launch for _, launch in launches])
        for (at, _), failure in zip(launches, failures, strict=True):
            errors[at] = failure
        self._looked_at = float("-inf")
        return errors

    def _carry_out(self, command: Command) -> None:
        match command:
            case SendNotice():
                self._notify(command)
            case KillStart(job, epoch):
                self._kill(job, epoch)
            case ForgetStart(job, epoch):
                self._forget(job, epoch)
            case AdoptJob(key, job):
                self._adopt(key, job)
            case CloseJob(key, job):
                self._close(key, job)
            case ResizeStart():
                raise SlurmError("CPUs of a running job of Slurm cannot change")

    def poll(self) -> EngineView:
        """Look at Slurm's jobs, and every two seconds at its nodes."""
        if self._clocks.was_set or time.monotonic() - self._clock_read_at >= _CLOCK_SECONDS:
            self._read_clock()
        self._look()
        now = time.time()
        for record in list(self._records):
            if record.lives:
                self._update(record, now)
        self._note_held()
        starts = [self._observed(record) for record in self._records]
        self._look_at_nodes()
        new = with_excluded(
            self._commands, self._partition, [row for row in self._rows.values() if self._new.is_new(row)]
        )
        rows = {**self._rows, **{row.number: row for row in new}}
        submitted = [found for row in rows.values() if (found := self._new.find(row)) is not None]
        requests = self._look_after_adopted()
        untaken = [*self._new.untaken(self._rows.keys()), *self._of_another_muster(), *self._changed()]
        untaken += self._by_themselves()
        return EngineView(
            starts,
            self._nodes,
            [*submitted, *self._taken(submitted)],
            requests,
            untaken,
            self._ended_alone(),
            self._kept(),
            clocks=self._clocks.differences(),
        )

    def _read_clock(self) -> str:
        """Note what time it is for slurmctld; return its configuration, which says so."""
        asked = time.time()
        config = self._commands.ask(["scontrol", "show", "config"])
        if (shown := time_of_config(config)) is not None:
            self._clocks.note(_SLURMCTLD, shown, asked, step=1.0)
        self._clock_read_at = time.monotonic()
        return config

    def _here(self, moment: float) -> float:
        """Return a time of Slurm by this machine's clock."""
        return self._clocks.here(_SLURMCTLD, moment)

    def _of_another_muster(self) -> list[UntakenJob]:
        """Return the jobs that run with a mark that no start of this Muster has."""
        ours = {one.comment for one in (*self._records, *self._adopted)}
        words = "another Muster runs it; allowed: one Muster for a partition"
        return [
            _untaken(row, words)
            for row in self._rows.values()
            if row.state == "RUNNING" and OWN.fullmatch(row.comment) and row.comment not in ours
        ]

    def _changed(self) -> list[UntakenJob]:
        """Return the jobs that run on other nodes or GPUs than they were given, and that Slurm does not requeue."""
        found = ((record, self._row(record)) for record in self._records if record.lives and record.requeued)
        return [
            _untaken(
                row, f"{_found_and_allowed(row, record)}. Hint: it may run on there, or scancel {row.number}"
            )
            for record, row in found
            if row is not None and row.state == "RUNNING" and row.values["Requeue"] != "1"
        ]

    def _by_themselves(self) -> list[UntakenJob]:
        """Return the adopted jobs that run without a start of Muster, and that Slurm does not requeue."""
        found = ((one, self._adopted_row(one.key)) for one in self._adopted)
        words = "requeue: found --no-requeue, released by its owner; allowed: a release by Muster"
        return [
            _untaken(row, f"{words}. Hint: it may run on, or scancel {row.number}")
            for one, row in found
            if row is not None and row.state in _ON_NODES and row.values["Requeue"] != "1"
            if self._records.living(one.job) is None
        ]

    def _ended_alone(self) -> list[Observed]:
        """Return how adopted jobs ended whose last run their owners have released."""
        without = [one for one in self._adopted if self._records.living(one.job) is None]
        return [end for one in without if (end := self._end_alone(one)) is not None]

    def _end_alone(self, adopted: Adopted) -> Observed | None:
        """Return how the run of a job ended that its owner has released; None: its last run is not of that kind."""
        row = self._adopted_row(adopted.key)
        if row is None or row.state in LIVING or row.state == "CANCELLED":
            return None
        if adopted.last_run is None or row.restarts <= adopted.last_run:
            return None
        how, status, message = outcome(row, StartRecord(adopted.job, 0, adopted.comment, [], launched=0.0))
        if how not in (Exit.COMPLETED, Exit.FAILED, Exit.KILLED):
            return None
        return Observed(adopted.job, 0, how, self._here(row.ended), status, _alone(message))

    def _look(self) -> None:
        """Read Slurm's jobs; find out what became of orders to which there was no answer."""
        before = {
            one.number: one.comment
            for one in self._rows.values()
            if one.state in LIVING and OWN.fullmatch(one.comment)
        }
        self._rows = {row.number: row for row in read_jobs(self._commands, self._partition)}
        self._rows |= self._elsewhere(before)
        for record in list(self._records):
            if record.lives and not record.released:
                self._recover(record)

    def _in_other_partitions(self, is_ours: Callable[[int, str], bool]) -> dict[int, SlurmJob]:
        """Return the jobs of this Muster that others have moved while no daemon served, and that have not ended."""
        found = (
            (row, OWN.fullmatch(row.comment))
            for row in read_marks(self._commands)
            if self._partition not in row.values["Partition"].split(",") and row.state in LIVING
        )
        return {row.number: row for row, own in found if own and is_ours(int(own["job"]), own["whose"])}

    def _elsewhere(self, before: dict[int, str]) -> dict[int, SlurmJob]:
        """Return the jobs of starts and owners that are in another partition by now, or forgotten by Slurm if not.

        And those that had not ended at the last look, by number with their comments.
        """
        comments = {record.slurm_job: record.comment for record in self._records if record.lives}
        comments |= before | {one.slurm_job: one.comment for one in self._adopted}
        found = read_numbered(self._commands, comments.keys() - self._rows.keys() - {0})
        return {row.number: row for row in found if row.comment == comments[row.number]}

    def _row(self, record: StartRecord) -> SlurmJob | None:
        """Return the job of a start; None if Slurm has forgotten it, or has given its number to another."""
        row = self._rows.get(record.slurm_job)
        return row if row is not None and row.comment == record.comment else None

    def _update(self, record: StartRecord, now: float) -> None:
        """Bring what is known of a living start up to date."""
        row = self._row(record)
        self._note_run(record, row)
        if row is None:
            self._end(record, Exit.LOST, now, None, "Slurm does not know it any more")
        elif row.restarts != record.restarts:
            if row.state != "COMPLETING":  # its processes may still live
                self._end_restarted(record, row, now)
        elif row.state not in LIVING:
            self._end_as_slurm_says(record, row, now)
        elif record.began and (row.state == "PENDING" or row.started > record.began):
            self._end_forgotten(record, row, now)
        elif row.state != "PENDING":
            self._update_running(record, row)
        elif record.stopping and row.held:
            self._end(record, Exit.STOPPED, now, None, "stopped before it had a process")
        elif record.stopping:
            record.taken_back = True
            self._records.keep(record)
            self._take_back(row)

    def _note_run(self, record: StartRecord, row: SlurmJob | None) -> None:
        """Note the run of an owner's job that Muster has started, when it is first seen."""
        if row is None or record.began or row.state == "PENDING" or row.restarts != record.restarts:
            return
        for one in list(self._adopted):
            if one.job == record.job and one.last_run != record.restarts:
                self._adopted.keep(replace(one, last_run=record.restarts))

    def _end_restarted(self, record: StartRecord, row: SlurmJob, now: float) -> None:
        """End a start whose job Slurm has requeued, or brought back from before its release."""
        if row.restarts < record.restarts or record.forgotten:
            self._end(record, Exit.LOST, now, None, _FORGOTTEN)
            return
        ended = min(max(self._here(row.last_end), record.launched), now) if row.last_end else now
        if row.launch_failed:
            self._end(record, Exit.LOST, ended, None, "Slurm could not launch it")
            return
        if row.held and not record.requeued:
            # It may be the hold by which Muster took the start back while it waited.
            record.held_by_owner = not record.taken_back
            by = "" if record.taken_back else ", not by Muster"
            self._end(record, Exit.STOPPED, ended, None, f"requeued and held in Slurm{by}")
            return
        if row.state not in LIVING and any(one.job == record.job for one in self._adopted):
            # It has run once more since, without Muster: how that ended is reported of the job.
            self._end(record, Exit.LOST, ended, None, record.requeued or _NOT_BY_MUSTER)
            return
        record.requeued = record.requeued or _NOT_BY_MUSTER
        self._records.keep(record)
        if row.held or not self._take_back(row):
            self._end(record, Exit.LOST, ended, None, record.requeued)

    def _end_as_slurm_says(self, record: StartRecord, row: SlurmJob, now: float) -> None:
        """End a start whose run has ended in Slurm, which has not requeued it."""
        how, status, message = outcome(row, record)
        if row.state == "TIMEOUT" and any(one.job == record.job for one in self._adopted):
            how = Exit.FAILED  # It is its owner's limit, by which the job ends in Slurm.
        if how in (Exit.FAILED, Exit.KILLED) and row.nodes and set(row.nodes) < set(record.nodes):
            how, message = Exit.LOST, _other_nodes(row, record)
        ended = self._here(row.ended) if row.ended else now
        self._end(record, how, max(ended, record.launched), status, message)

    def _end_forgotten(self, record: StartRecord, row: SlurmJob, now: float) -> None:
        """End a start of which slurmctld knew nothing after its restart, so that it began the job again, or will.

        Its count of restarts is the same. The new run may have other GPUs, and the old one may still be there: the
        next start makes both stale. A job that may not be requeued goes on with what it has now.
        """
        if row.held:
            self._end(record, Exit.LOST, now, None, _FORGOTTEN)
        elif row.state == "PENDING":
            self._take_back(row)
        elif row.values["Requeue"] != "1":
            record.began, record.gpu_ids, record.requeued = row.started, {}, ""
            self._records.keep(record)
        elif row.state == "RUNNING":
            record.forgotten = True
            self._records.keep(record)
            self._take_back(row)

    def _update_running(self, record: StartRecord, row: SlurmJob) -> None:
        # Until its nodes are up its start time may change.
        if not record.began and row.state != "CONFIGURING":
            record.began = row.started
            self._records.keep(record)
        other = _other_nodes(row, record)
        if other and row.state == "RUNNING" and not record.requeued:
            record.requeued = other
            self._records.keep(record)
        # At every poll until it is no longer there: an order may get no answer.
        if record.requeued and row.state == "RUNNING" and row.values["Requeue"] == "1":
            self._take_back(row)
        if record.killed:  # again: Slurm loses a signal that comes before the first process
            self._scancel(record, "--signal=KILL", "--full")
        elif record.stopping and not record.sent:
            self._signal(record, "SIGTERM")

    def _end(self, record: StartRecord, how: Exit, at: float, status: int | None, message: str) -> None:
        record.ended(how, at, status, message)
        self._records.keep(record)

    def _take_back(self, row: SlurmJob) -> bool:
        """Order Slurm not to begin a job by itself; whether it takes the order.

        It does so too where the job has begun since the last look, and lets it run: only the next look shows whether
        the job is held.
        """
        (message,) = change(self._commands, [_holding(row)])
        if message:
            log.warning("a job of Slurm could not be held", slurm_job=row.number, error=message)
        return not message

    def _observed(self, record: StartRecord) -> Observed:
        """Return a start as the controller sees it, with why Slurm does not begin it yet."""
        began = max(self._here(record.began), record.launched)
        row = self._row(record) if record.lives else None
        # One that has begun has run, also where Slurm has requeued it since: only its end is still to come.
        if row is None or row.state != "PENDING" or record.began:
            return record.observed(began)
        reason = row.reason or "Slurm has not looked at it yet"
        return record.observed(began, waiting_words(reason), place_taken=reason.startswith(_PLACE_TAKEN))

    def _note_held(self) -> None:
        """Note what Slurm has given starts that have just begun: one process for all of them."""
        new = [record for record in self._records if record.lives and record.began and not record.gpu_ids]
        if not new:
            return
        details = read_details(self._commands)
        for record in new:
            held, row = details.get(record.slurm_job, {}), self._row(record)
            record.gpu_ids = {name: held[name].gpu_ids if name in held else [] for name in record.nodes}
            if row is not None and has_other_amounts(row, record.allocations):
                record.amounts = {
                    name: {"cpus": float(here.cpus), "memory_gb": round(here.memory_mib * GB_PER_MIB, 6)}
                    for name, here in held.items()
                }
            gpus = [len(here["gpu_ids"]) for here in record.allocations]
            found = [len(ids) for ids in record.gpu_ids.values()]
            # No GPUs are shown of one that has just ended.
            shown = held and all(here.shows_gpus for here in held.values())
            if found != gpus and shown and not record.requeued:
                record.requeued = f"given {sum(found)} GPUs in Slurm, not by Muster"
            self._records.keep(record)

    def _look_at_nodes(self) -> None:
        if time.monotonic() - self._looked_at < _NODES_SECONDS:
            return
        printed = self._commands.ask(["scontrol", "--oneliner", "--details", "show", "node"])
        ours = [record.held for record in self._records if record.lives and record.began]
        self._nodes = engine_nodes(printed, self._cluster, ours)
        self._addresses, self._of_several_types = addresses(printed), of_several_types(printed)
        self._looked_at = time.monotonic()

    def _launch_all(self, launches: Sequence[Launch]) -> list[Exception | None]:
        """Submit new jobs one by one; rewrite the others together, then release those that Slurm has rewritten."""
        errors: list[Exception | None] = [None] * len(launches)
        try:
            if not all(self._is_held(launch) for launch in launches):
                self._look()
        except OSError as error:
            return [error] * len(launches)
        begun: list[tuple[int, Launch, StartRecord]] = []
        for at, launch in enumerate(launches):
            try:
                if (record := self._record_of(launch)) is not None:
                    begun.append((at, launch, record))
            except OSError as error:
                errors[at] = error
        ends = self._begin([(launch, record) for _, launch, record in begun])
        for (at, _, _), end in zip(begun, ends, strict=True):
            errors[at] = end
        return errors

    def _begin(self, starts: Sequence[tuple[Launch, StartRecord]]) -> Sequence[Exception | None]:
        """Write the files of starts, then have Slurm begin those that are written."""
        errors = _together(self._write, starts)
        known: list[tuple[int, StartRecord, list[str]]] = []
        for at, (launch, record) in enumerate(starts):
            if errors[at] is None and record.slurm_job:
                tasks = launch.ranks[0] if launch.key else 1
                known.append((at, record, self._rewriting_lines(record, tasks)))
            elif errors[at] is None:
                (errors[at],) = _together(self._submit, [(launch, record)])
        ends = self._rewrite_and_release([(record, lines) for _, record, lines in known])
        for (at, _, _), end in zip(known, ends, strict=True):
            errors[at] = end
        return errors

    def _is_held(self, launch: Launch) -> bool:
        """Whether the last poll has seen its job held, so that it can be rewritten without another look."""
        row = self._job_of(launch)
        return row is not None and row.held and self._records.get(launch.job, launch.epoch) is None

    def _write(self, launch: Launch, record: StartRecord) -> None:
        """Put a start and its files on disk."""
        self._records.keep(record)
        if launch.key:
            write_submitted_start(launch, record.slurm_job, record.restarts)
        else:
            write_start(launch, self._addresses, self._passed_on)

    def _rewrite_and_release(
        self, prepared: Sequence[tuple[StartRecord, list[str]]]
    ) -> Sequence[Exception | None]:
        """Rewrite jobs by their lines, then release those that Slurm has rewritten: two processes for all of them."""
        try:
            messages = iter(change(self._commands, [line for _, lines in prepared for line in lines]))
            refused = ["; ".join(filter(None, [next(messages) for _ in lines])) for _, lines in prepared]
            taken = [record for (record, _), message in zip(prepared, refused, strict=True) if not message]
            self._let_second_pass(taken)
            released = iter(change(self._commands, [f"release {record.slurm_job}" for record in taken]))
        except OSError as error:  # Slurm may carry it out yet: the next look finds out.
            return [error] * len(prepared)
        ends = [
            (record, message or next(released))
            for (record, _), message in zip(prepared, refused, strict=True)
        ]
        return _together(self._note_release, ends)

    def _let_second_pass(self, records: Sequence[StartRecord]) -> None:
        """Wait for the end of the second in which the last of these jobs' runs has ended.

        slurmd takes what slurmctld begins in that second for the run that has ended, and refuses it.
        """
        ended = max((self._rows[record.slurm_job].last_end for record in records), default=0.0)
        # A requeue may count as submitted in the second after it.
        surely = self._clocks.at_the_latest(_SLURMCTLD, ended + _SECOND)
        time.sleep(min(max(surely - time.time(), 0.0), 2.0 * _SECOND))

    def _note_release(self, record: StartRecord, message: str) -> None:
        """Note that Slurm has taken a start; the error if it has not."""
        if message:
            self._records.drop(record)
            raise refusal(f"scontrol refused it: {message}")
        record.released = True
        self._records.keep(record)

    def _record_of(self, launch: Launch) -> StartRecord | None:
        """Return a new record, with the job in Slurm that earlier starts had if it can be used again.

        None if the start is known already. OSError while an older start of the job is there.
        """
        if self._records.get(launch.job, launch.epoch) is not None:
            return None
        living = self._records.living(launch.job)
        if living is not None:
            raise OSError(errno.EBUSY, f"start {living.epoch} of job {launch.job} is still there")
        row = self._job_of(launch)
        if row is not None and row.state in _ON_NODES:
            if row.state == "RUNNING":
                self._take_back(row)
            raise OSError(errno.EBUSY, f"an earlier run of job {row.number} of Slurm has not ended")
        record = StartRecord(
            launch.job,
            launch.epoch,
            _comment(launch),
            [as_fields(here) for here in launch.allocations],
            launched=time.time(),
        )
        adopted = self._adopted.get(launch.key)
        if adopted is not None and self._end_alone(adopted) is not None:
            raise StartRefused(f"job {launch.key} was released in Slurm by its owner, and has ended there")
        if row is None and launch.key:
            raise SlurmError(f"job {launch.key} is not in Slurm any more, or may not be requeued")
        if row is not None:
            record.slurm_job = row.number
            record.restarts = row.restarts + (row.state != "PENDING")
        self._records.add(record)
        return record

    def _job_of(self, launch: Launch) -> SlurmJob | None:
        """Return the job in Slurm that carries this job's mark and can run again."""
        comment = _comment(launch)
        rows = [
            row
            for row in self._rows.values()
            if row.comment == comment and (row.values["Requeue"] == "1" or row.state == "PENDING")
        ]
        return max(rows, key=lambda row: row.submitted, default=None)

    def _rewriting_lines(self, record: StartRecord, tasks_per_node: int) -> list[str]:
        row = self._rows[record.slurm_job]
        # By scontrol's own clock: where that is ahead, it would put off, again and again, what can begin earlier.
        begins = row.state != "PENDING" or row.started > time.time()
        requested_type = gpu_type_of(row)
        gpu_type = self._first_type(record) if requested_type is None else requested_type
        line = rewritten(row.number, record.allocations, gpu_type, tasks_per_node, begins=begins)
        if self._partition not in row.values["Partition"].split(","):
            line += f" Partition={self._partition}"
        if row.held:
            return [line]
        # Released already where an order to release it was carried out late: then it is withdrawn first.
        return [_holding(row), line]

    def _first_type(self, record: StartRecord) -> str:
        """Return the type of GPU that a job requested when it was submitted; "" is any.

        Its owner's, if it has one. Muster's own requests name a type only where Slurm has a choice on the node: Slurm
        lets a job that has requested one start on no other.
        """
        adopted = next((one for one in self._adopted if one.job == record.job), None)
        if adopted is not None:
            constraint = str(adopted.request["constraint"])
            return constraint.removeprefix(GPU_TYPE) if constraint.startswith(GPU_TYPE) else ""
        node = self._cluster.nodes[self._cluster.node_index[record.nodes[0]]]
        return node.gpu_type if node.name in self._of_several_types else ""

    def _submit(self, launch: Launch, record: StartRecord) -> None:
        """Submit a job in its owner's name, already with what its first start gets."""
        command = [
            "sbatch",
            "--parsable",
            "--requeue",
            f"--partition={self._partition}",
            f"--job-name=muster-{launch.job}",
            f"--comment={_comment(launch)}",
            *self._longest_time(),
            "--output=/dev/null",
            # NONE, or names, has slurmd wait for a login shell of the user. The launcher sets what the job sees.
            "--export=ALL",
            f"--chdir={launch.run_dir.parent}",
            *([f"--uid={launch.user}"] if launch.user is not None else []),
            *requested(record.allocations, self._first_type(record)),
        ]
        done = self._commands.done(command, batch_script(launch), passed_on=_PASSED_ON)
        if done.returncode != 0:
            self._records.drop(record)
            raise refusal(f"sbatch refused it: {explained(done.stderr)}")
        record.slurm_job = int(done.stdout.split(";")[0])
        record.released = True
        self._records.keep(record)

    def _longest_time(self) -> list[str]:
        """Return the option by which a job may run as long as the partition allows; Muster keeps its own limit.

        Without it Slurm would end each run after the partition's `DefaultTime`, where it has one.
        """
        shown = self._commands.ask(["scontrol", "--oneliner", "show", "partition", self._partition])
        fields = read_fields(shown)
        return [] if fields.get("DefaultTime", "NONE") == "NONE" else [f"--time={fields['MaxTime']}"]

    def _adopt(self, key: str, job: int) -> None:
        """Note the number of a job, and mark it as ours; again if the daemon died between the two."""
        if self._adopted.get(key) is not None and self._adopted_row(key) is not None:
            return
        found = ((row, self._new.find(row)) for row in self._rows.values())
        row, new = next(
            ((row, new) for row, new in found if new is not None and new.key == key), (None, None)
        )
        if row is None or new is None:
            raise SlurmError(f"job {key} is not held in Slurm any more")
        request = new.request.model_dump(mode="json")
        adopted = Adopted(key, row.number, job, new.user, request, last_run=-1)
        self._adopted.keep(adopted)
        (message,) = change(self._commands, [f"update jobid={row.number} Comment={adopted.comment}"])
        if message:
            raise SlurmError(f"Slurm did not mark job {key}: {message}")

    def _close(self, key: str, job: int) -> None:
        """Cancel what is left of a job, and forget it."""
        comment = own_comment(key, job)
        for row in [row for row in self._rows.values() if row.comment == comment and row.state == "PENDING"]:
            done = self._commands.done(["scancel", str(row.number)])
            if done.returncode != 0 and not any(words in done.stderr for words in _OVER):
                raise SlurmError(f"scancel: {explained(done.stderr)}")
        self._adopted.drop(key)

    def _kept(self) -> list[ReservedJob]:
        """Return the jobs of `muster submit` that are held for a next start."""
        others = {one.comment for one in (*self._adopted, *(one for one in self._records if one.lives))}
        found = [
            OWN.fullmatch(row.comment)
            for row in self._rows.values()
            if row.held and row.comment not in others
        ]
        return [ReservedJob(int(one["job"]), one["whose"]) for one in found if one is not None]

    def _adopted_row(self, key: str) -> SlurmJob | None:
        """Return an adopted job in Slurm; None if it is not there, or not marked yet."""
        adopted = self._adopted.get(key)
        row = None if adopted is None else self._rows.get(adopted.slurm_job)
        return row if row is not None and adopted is not None and row.comment == adopted.comment else None

    def _taken(self, new: Sequence[SubmittedJob]) -> list[SubmittedJob]:
        """Return the adopted jobs, but for those that are still to be marked."""
        unmarked = {one.key for one in new}
        return [one.submitted() for one in self._adopted if one.key not in unmarked]

    def _look_after_adopted(self) -> list[OwnerRequest]:
        """Return what owners have requested; keep jobs in Slurm that are to start again, and hold them."""
        found = [(one, *self._request_of_owner(one)) for one in self._adopted]
        for message in change(self._commands, [line for _, _, line in found if line]):
            if message:
                log.warning("a job of Slurm could not be held", error=message)
        return [OwnerRequest(one.key, request) for one, request, _ in found if request is not None]

    def _request_of_owner(self, adopted: Adopted) -> tuple[StateRequest | None, str]:
        """Return what the owner of a job has requested, and scontrol's line that holds the job, if it needs one."""
        row, start = self._adopted_row(adopted.key), self._records.newest(adopted.job)
        if row is None:
            forgotten = adopted.slurm_job not in self._rows
            return (StateRequest.CANCEL if forgotten else None), ""
        if row.state == "CANCELLED" and not (start is not None and start.killed):
            return StateRequest.CANCEL, ""
        if start is not None and start.lives:
            return None, ""
        if row.state != "PENDING" and row.values["Requeue"] != "1":
            return _request_by_itself(start, row), ""
        if row.state == "RUNNING" or (row.state == "PENDING" and not row.held):
            if start is not None and start.held_by_owner:
                start.held_by_owner = False
                self._records.keep(start)
            return StateRequest.RELEASE, _holding(row)
        if start is None:
            return None, ""
        if row.held and start.held_by_owner:
            return StateRequest.HOLD, ""
        # Slurm forgets an ended job after MinJobAge.
        again = row.state not in LIVING and row.restarts == start.restarts and _may_start_again(start, row)
        return None, f"requeuehold {row.number}" if again else ""

    def _recover(self, record: StartRecord) -> None:
        """Find out whether a start was released, where Slurm gave no answer or the daemon died too early to note it."""
        row = self._row(record) if record.slurm_job else None
        if row is None:
            row = next((one for one in self._rows.values() if one.comment == record.comment), None)
        if row is None or row.held or row.restarts < record.restarts:
            self._records.drop(record)
            return
        record.slurm_job, record.released = row.number, True
        self._records.keep(record)

    def _notify(self, notice: SendNotice) -> None:
        record = self._records.get(notice.job, notice.epoch)
        reads = write_notice(notice)
        if record is None or not record.lives or not notice.stop:
            return
        if not record.stopping:
            stop_file(notice.run_dir, notice.epoch).touch(mode=0o644)
            record.stopping = True
            self._records.keep(record)
        if not reads and record.began:
            self._signal(record, notice.stop_signal)

    def _signal(self, record: StartRecord, name: str) -> None:
        """Send a signal to every task of a start, once; noted before, so that none gets it twice.

        Muster's own script is srun, which a signal would have kill its tasks. A start without tasks yet finds the stop
        file.
        """
        if name in record.sent:
            return
        record.sent.append(name)
        self._records.keep(record)
        is_adopted = any(one.job == record.job for one in self._adopted)
        batch = ["--batch"] if is_adopted and not self._has_steps(record) else []
        self._scancel(record, f"--signal={name.removeprefix('SIG')}", *batch)

    def _has_steps(self, record: StartRecord) -> bool:
        """Whether the job's script runs its processes by srun; if not, a signal reaches them by the script alone."""
        asked = ["squeue", "--noheader", "--steps", f"--jobs={record.slurm_job}", "--Format=StepID:64"]
        steps = [line.split(".")[-1].strip() for line in self._commands.ask(asked).splitlines()]
        return any(step.isdecimal() for step in steps)

    def _kill(self, job: int, epoch: int) -> None:
        record = self._records.get(job, epoch)
        if record is None or not record.lives:
            return
        if not record.killed:
            record.killed = record.stopping = True
            self._records.keep(record)
        if record.began:
            self._scancel(record, "--signal=KILL", "--full")

    def _scancel(self, record: StartRecord, *options: str) -> None:
        done = self._commands.done(["scancel", *options, str(record.slurm_job)])
        if done.returncode != 0 and not any(words in done.stderr for words in _OVER):
            raise SlurmError(f"scancel: {explained(done.stderr)}")

    def _forget(self, job: int, epoch: int) -> None:
        record = self._records.get(job, epoch)
        if record is None:
            return
        if record.lives:
            raise OSError(errno.EBUSY, f"start {epoch} of job {job} is still there")
        self._records.drop(record)


def _together(do: Callable[..., None], many: Sequence[tuple[Any, ...]]) -> list[Exception | None]:
    """Do the same for many starts at a time, as each waits for the disk; return the error of each that failed."""

    def failure(one: tuple[Any, ...]) -> Exception | None:
        try:
            do(*one)
        except Exception as error:
            return error
        return None

    if len(many) <= 1:
        return [failure(one) for one in many]
    with ThreadPoolExecutor(min(len(many), _WRITERS)) as pool:
        return list(pool.map(failure, many))


def _comment(launch: Launch) -> str:
    """Return what the job of a start says in Slurm."""
    return own_comment(launch.key or launch.whose, launch.job)


def _holding(row: SlurmJob) -> str:
    """Return scontrol's line that holds a job, whatever it does by now."""
    return f"{'hold' if row.state == 'PENDING' else 'requeuehold'} {row.number}"


def _alone(message: str) -> str:
    """Return the message of the end of a run that Muster did not start."""
    return f"released in Slurm by its owner; {message or 'it ended there'}"


def _other_nodes(row: SlurmJob, record: StartRecord) -> str:
    """Return what others have done to the nodes of a start; "" where it has those that it was given."""
    now, given = set(row.nodes), set(record.nodes)
    what = "left with" if now < given else "moved to"
    return f"{what} {', '.join(row.nodes)} in Slurm, not by Muster" if now != given else ""


def _found_and_allowed(row: SlurmJob, record: StartRecord) -> str:
    """Return what others have changed of a start that runs, for people."""
    if set(row.nodes) != set(record.nodes):
        return (
            f"nodes: found {', '.join(row.nodes)}; allowed: {', '.join(record.nodes)}, where Muster placed it"
        )
    found = sum(len(ids) for ids in record.gpu_ids.values())
    given = sum(len(here["gpu_ids"]) for here in record.allocations)
    return f"GPUs: found {found}; allowed: {given}, as Muster gave it"


def _untaken(row: SlurmJob, words: str) -> UntakenJob:
    return UntakenJob(f"job {row.number} of Slurm", row.values["UserName"], words)


def _request_by_itself(start: StartRecord | None, row: SlurmJob) -> StateRequest | None:
    """Return what follows for a job that Slurm does not requeue, and that runs or ran without a living start.

    Muster starts nothing while it runs, and its end is the job's.
    """
    if row.state in _ON_NODES:
        return StateRequest.HOLD
    never_ran = start is None or (not start.began and _ended_as(start, Exit.STOPPED))
    return StateRequest.CANCEL if never_ran else None


def _may_start_again(start: StartRecord, row: SlurmJob) -> bool:
    """Whether a job whose start has ended is not over by that."""
    return _ended_as(start, Exit.STOPPED, Exit.LOST, Exit.KILLED) and row.values["Requeue"] == "1"


def _ended_as(start: StartRecord, *ends: Exit) -> bool:
    return start.end is not None and Exit(start.end["ended"]) in ends
