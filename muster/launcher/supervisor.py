"""The small process that looks after one start: brings its ranks up, waits for them, writes how they ended.

It is a session of its own and goes on whatever happens to the daemon. All that it knows comes from the start's
folder (`folder.py` is the daemon's side) and all that it learns goes there:

- `lock`: it holds an flock on it as long as it lives. The kernel frees it, so a lock that is free is a death.
- `status`: records that it appends. A second supervisor gets the lock, finds one there, and leaves.
- `launch.json`: what to run. `wanted`: what is wanted of it meanwhile. `bell`: a FIFO; a byte in it means that
  `wanted` has changed. It opens the bell before it reads `wanted`, so it misses nothing.

It adopts what its ranks leave behind (PR_SET_CHILD_SUBREAPER), so no process of the start escapes it, and the end
is written only once the last one is gone. Its ranks die with it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from muster import processes
from muster.launcher.journal import append_record, read_records
from muster.launcher.lease import Lease
from muster.launcher.output_file import keep_newest
from muster.launcher.parts import MASTER_SECONDS, Master, Parts, free_port, rank_variables
from muster.launcher.rank import CANNOT_START, become, open_output, read_complaint
from muster.training.run_folder import EXIT_STOPPED

LOOK_SECONDS = 1.0
"""Between two looks at how much has been printed, and at the memory of a start for which there is no cgroup."""
_CLEAR_LOOK_SECONDS = 0.005
"""Between the first two looks whether all is gone; doubled each time, up to a second."""


class Ending(NamedTuple):
    """How a rank ended."""

    rank: int
    status: int
    """Exit status, or minus the number of the signal that ended it."""
    error: int
    why: str
    """Where it could not be brought up: the number of the error, and a message."""


class _Rank(NamedTuple):
    rank: int
    pid: int
    complaint: int
    """Read end of a pipe in which it says why it could not be brought up."""
    output: int | None
    """What it prints to; None: it could not be opened."""


def main(folder: str) -> None:
    """Looks after the start in this folder, unless another supervisor does or did.

    One with a lease is no child of the process that started it, which might end its children when it ends.
    """
    with suppress(FileNotFoundError), open(f"{folder}/launch.json") as file:  # noqa: PTH123
        if json.load(file)["lease_file"] is not None and os.fork():
            os._exit(0)
    os.chdir("/")
    # Close what the daemon's parent left open: another process may wait for the end of a pipe.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    supervise(folder)


def supervise(folder: str) -> dict[str, Any] | None:
    """Runs the start in this folder; its last record. None if another supervisor does or did."""
    try:
        lock = os.open(f"{folder}/lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.open(f"{folder}/status", os.O_RDWR)
    except (FileNotFoundError, BlockingIOError):
        return None
    if read_records(status):
        return None
    with open(f"{folder}/launch.json") as file:  # noqa: PTH123
        return Supervisor(folder, status, json.load(file)).look_after()


class Supervisor:
    """Runs one start, or its part on this node."""

    def __init__(self, folder: str, status: int, launch: dict[str, Any]) -> None:
        self._status = status
        self._launch = launch
        self._bell = os.open(f"{folder}/bell", os.O_RDWR | os.O_NONBLOCK)
        self._wanted_file = os.open(f"{folder}/wanted", os.O_RDONLY)
        self._wanted: dict[str, Any] = {}
        self._ranks: dict[int, _Rank] = {}
        """The living ones by pid."""
        self._endings: list[Ending] = []
        self._sent: dict[str, int] = {}
        """Signals that went to the ranks because they were wanted, and how often."""
        self._affinity: list[int] | None = None
        self._gang_deadline: float | None = None
        self._over_memory_bytes: int | None = None
        self._other_died = False
        """A rank on another node died, so this part ends."""
        self._death_published = False
        self._received: set[str] = set()
        """Signals that it got itself and passes on to the ranks."""
        meeting = launch["meeting_folder"]
        self._parts = None if meeting is None else Parts(Path(meeting), launch["part"])
        self._lease = Lease(launch["lease_file"])
        self._cut_off = False
        """The end of its lease has ended it."""

    def look_after(self) -> dict[str, Any]:
        """Run the start, from the first record to the last, which it returns."""
        began = processes.look_at(os.getpid())
        append_record(self._status, {"supervisor": began, "time": time.time()})
        processes.adopt_orphans()
        alarm, alarm_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(alarm_end, warn_on_full_buffer=False)
        # What ends other processes is for the ranks to obey; handlers, unlike SIG_IGN, do not outlive an exec.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        for name in self._launch["passes_on"]:
            signal.signal(
                signal.Signals[name], lambda number, _: self._received.add(signal.Signals(number).name)
            )
        self._read_wanted()
        if master := self._meet(alarm):
            self._start_ranks(master)
        while self._ranks:
            self._wait(alarm)
            self._read_wanted()
            self._reap()
            self._obey()
            self._end_gang()
            self._watch_lease()
            self._watch_memory()
            self._limit_output()
        self._clear()
        return self._write_end()

    def _meet(self, alarm: int) -> Master | None:
        """Where rank 0 is; None if the start is to stop before that is known."""
        master = None
        if self._parts is None:
            master = Master("127.0.0.1", free_port("127.0.0.1"))
        elif self._launch["first_rank"] == 0:
            master = self._parts.publish_master(self._launch["address"])
        give_up = time.monotonic() + MASTER_SECONDS
        while not self._is_to_stop:
            if master is not None or (self._parts is not None and (master := self._parts.master())):
                return master
            if time.monotonic() >= give_up:
                why = f"the node of rank 0 has not published its address within {MASTER_SECONDS:g} s"
                self._endings.append(Ending(self._launch["first_rank"], CANNOT_START, errno.EAGAIN, why))
                return None
            self._wait(alarm)
            self._read_wanted()
            self._look_at_others()
        return None

    @property
    def _is_to_stop(self) -> bool:
        wanted = self._wanted.get("signals") or self._wanted.get("kill") or self._received
        wanted = wanted or self._lease.is_ending
        return bool(wanted or self._other_died or os.path.exists(self._launch["stop_file"]))  # noqa: PTH110

    def _start_ranks(self, master: Master) -> None:
        for local_rank in range(self._launch["ranks"]):
            self._start(local_rank, master)
        pids = [rank.pid for rank in self._ranks.values()]
        append_record(self._status, {"ranks": pids, "time": time.time()})

    def _start(self, local_rank: int, master: Master) -> None:
        launch = self._launch
        rank = launch["first_rank"] + local_rank
        of_rank = rank_variables(
            launch["first_rank"], local_rank, launch["ranks"], launch["world_size"], master
        )
        environment = launch["environment"] | of_rank
        output = None
        with suppress(OSError):  # The rank tries it again, and says why it cannot.
            output = open_output(self._launch["output_dir"], rank)
        complaint, complaint_end = os.pipe2(os.O_CLOEXEC)
        # No signal may come before the child has its own way of taking it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(rank, self._launch, self._wanted, environment, supervisor, complaint_end, output)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(complaint_end)
        self._ranks[pid] = _Rank(rank, pid, complaint, output)

    def _wait(self, alarm: int) -> None:
        """Wait until a child ends, the bell rings or a deadline passes."""
        timeout = LOOK_SECONDS
        if self._gang_deadline is not None:
            timeout = min(timeout, max(0.0, self._gang_deadline - time.monotonic()))
        ready, _, _ = select.select([alarm, self._bell], [], [], timeout)
        for descriptor in ready:
            with suppress(BlockingIOError):
                os.read(descriptor, 65_536)

    def _read_wanted(self) -> None:
        for record in read_records(self._wanted_file):
            self._wanted = record
        if self._received:
            passed_on = dict.fromkeys(self._received, 1)
            self._wanted = self._wanted | {"signals": self._wanted.get("signals", {}) | passed_on}

    def _reap(self) -> None:
        """Takes note of ranks that ended; those ended by a signal first, as the others may only have noticed."""
        ended = []
        with suppress(ChildProcessError):
            while True:
                pid, raw = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in self._ranks:
                    rank = self._ranks.pop(pid)
                    ended.append(
                        Ending(rank.rank, os.waitstatus_to_exitcode(raw), *read_complaint(rank.complaint))
                    )
                    os.close(rank.complaint)
                    if rank.output is not None:
                        os.close(rank.output)
        self._endings += sorted(ended, key=lambda ending: ending.status >= 0)

    def _obey(self) -> None:
        """Carries out what is wanted and was not yet done."""
        for name, times in self._wanted.get("signals", {}).items():
            if self._sent.get(name, 0) < times:
                self._sent[name] = times
                self._signal_ranks(signal.Signals[name])
        if self._wanted.get("kill"):
            processes.kill_all(processes.descendants(os.getpid()))
        if self._affinity != self._wanted.get("affinity"):
            self._affinity = self._wanted["affinity"]
            if self._affinity is not None:
                # Twice: a thread may start another one between the look and the move.
                for _ in range(2):
                    processes.run_on(processes.descendants(os.getpid()), self._affinity)

    def _signal_ranks(self, number: signal.Signals) -> None:
        # The leader has not been waited for, so its number is still its group's.
        for pid in self._ranks:
            try:
                os.killpg(pid, number)
            except ProcessLookupError:  # so young that it leads no group yet
                os.kill(pid, number)

    def _end_gang(self) -> None:
        """If a rank has died, here or on another node, the others have nothing to wait for."""
        self._publish_death()
        if self._gang_deadline is None:
            died = any(map(self._is_death, self._endings))
            self._look_at_others()
            if died or self._other_died:
                self._gang_deadline = time.monotonic() + self._launch["gang_grace_seconds"]
                self._signal_ranks(signal.SIGTERM)
        elif time.monotonic() >= self._gang_deadline:
            processes.kill_all(processes.descendants(os.getpid()))
            self._gang_deadline = time.monotonic() + self._launch["gang_grace_seconds"]

    def _publish_death(self) -> None:
        """Let the parts on other nodes end too; tried again at each look."""
        if self._parts is not None and not self._death_published and any(map(self._is_death, self._endings)):
            with suppress(OSError):
                self._parts.publish_death()
                self._death_published = True

    def _look_at_others(self) -> None:
        if self._parts is not None and not self._other_died:
            self._other_died = self._parts.other_died()

    def _is_death(self, ending: Ending) -> bool:
        """Neither done, nor stopped, nor ended by what it was sent: those say nothing about the others."""
        numbers = {signal.Signals[name].value for name in self._sent}
        by_signal = -ending.status if ending.status < 0 else ending.status - 128
        return ending.status not in (0, EXIT_STOPPED) and by_signal not in numbers

    def _watch_lease(self) -> None:
        """Have the ranks save and end while the lease still holds; kill them when it is over."""
        name = self._launch.get("stop_signal", "SIGTERM")
        if self._lease.is_ending and not self._sent.get(name):
            self._sent[name] = 1
            self._cut_off = self._gang_deadline is None
            self._signal_ranks(signal.Signals[name])
        if self._lease.is_over:
            processes.kill_all(processes.descendants(os.getpid()))

    def _watch_memory(self) -> None:
        limit = self._wanted.get("memory_bytes")
        if limit is None or not self._ranks:
            return
        pids = processes.descendants(os.getpid())
        used = processes.memory_bytes(pids, at_most=limit)
        if used > limit:
            self._over_memory_bytes = used
            processes.kill_all(pids)

    def _limit_output(self) -> None:
        """Drops the oldest output of ranks that print more than the disk is to keep; they run on."""
        most = self._launch["output_limit_gb"] * 1e9
        for rank in self._ranks.values():
            if rank.output is not None:
                with suppress(OSError):
                    keep_newest(rank.output, most)

    def _clear(self) -> None:
        """Ends what the ranks left behind, until nothing is."""
        pause = _CLEAR_LOOK_SECONDS
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                processes.kill_all(processes.descendants(os.getpid()))
                time.sleep(pause)
                pause = min(1.0, 2 * pause)

    def _write_end(self) -> dict[str, Any]:
        record = {
            "ended": time.time(),
            "endings": self._endings,
            "sent": sorted(self._sent.keys() | self._wanted.get("signals", {}).keys()),
            "killed": bool(self._wanted.get("kill")) or self._lease.is_over,
            "over_memory_bytes": self._over_memory_bytes,
            "other_died": self._other_died,
            "cut_off": self._cut_off or (not self._endings and self._lease.is_ending),
        }
        self._publish_death()
        if self._parts is not None:
            with suppress(OSError):  # Where the folder is away, the engine has the record of this node only.
                self._parts.publish_end(record)
        append_record(self._status, record)
        os.fsync(self._status)
        return record
