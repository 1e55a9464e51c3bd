"""What the interface of engines promises, as tests that every engine runs.

An engine takes part by a class `TestX(EngineConformance)` with a fixture `case`; one that runs real processes by
`TestX(ProcessConformance)` with the fixture `process_case` as well.
"""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from getpass import getuser
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.engines import (
    Command,
    Engine,
    Exit,
    ForgetStart,
    KillStart,
    Launch,
    Observed,
    OutputPiece,
    OutputRequest,
    ResizeStart,
    SendNotice,
)
from muster.service.engines.factory import EngineFactory
from muster.training.run_folder import EXIT_STOPPED, RunFolder, Stale

PATIENCE_SECONDS = 60.0
COMMANDS = ("signal", "kill", "resize")


class Work(Enum):
    """What a start does."""

    ENDLESS = "runs until it is stopped"
    SHORT = "completes soon"


class Case(ABC):
    """An engine under test, on nodes with at least 2 GPUs and 2 CPUs each."""

    factory: EngineFactory
    engine: Engine

    @abstractmethod
    def reopen(self) -> None:
        """Replaces `engine` by a new one, as after the daemon's death: only what it stored is known."""

    @abstractmethod
    def launch_of(self, job: int, epoch: int, work: Work) -> Launch:
        """A start on one GPU and one CPU."""

    @abstractmethod
    def now(self) -> float:
        """Unix seconds of the engine's clock."""

    @abstractmethod
    def pause(self) -> None:
        """Lets a little time pass on the engine's clock."""

    def send(self, command: Command) -> None:
        """Has one command carried out; raises its error."""
        (error,) = self.engine.carry_out([command])
        if error is not None:
            raise error

    def launch(self, job: int, epoch: int = 1, work: Work = Work.ENDLESS) -> None:
        self.send(self.launch_of(job, epoch, work))

    def signal(self, job: int, epoch: int, name: str = "SIGTERM") -> None:
        """Asks a start to stop that reads no notices."""
        run_dir = self.launch_of(job, epoch, Work.ENDLESS).run_dir
        self.send(
            SendNotice(job, epoch, run_dir, stop=True, cache_gb=0.0, reads_notices=False, stop_signal=name)
        )

    def kill(self, job: int, epoch: int = 1) -> None:
        self.send(KillStart(job, epoch))

    def forget(self, job: int, epoch: int = 1) -> None:
        self.send(ForgetStart(job, epoch))

    def starts(self) -> list[Observed]:
        """What a poll finds."""
        return list(self.engine.poll().starts)

    def node_names(self) -> list[str]:
        return [state.node.name for state in self.engine.poll().nodes]

    def command(self, name: str, job: int, epoch: int) -> None:
        """Gives one of the commands to a start."""
        if name == "signal":
            self.signal(job, epoch)
        elif name == "kill":
            self.kill(job, epoch)
        elif self.factory.capabilities.can_resize:  # If not, it is never sent.
            self.send(ResizeStart(job, epoch, tuple(self.smaller(job, epoch))))

    def smaller(self, job: int, epoch: int) -> Sequence[NodeAllocation[str]]:
        """Half of the CPU of a start, on the same nodes and GPUs."""
        launch = self.launch_of(job, epoch, Work.ENDLESS)
        return [replace(here, cpus=here.cpus / 2) for here in launch.allocations]

    def observed(self, job: int, epoch: int = 1) -> Observed:
        """What the engine knows of a start that is not forgotten."""
        (one,) = [one for one in self.starts() if (one.job, one.epoch) == (job, epoch)]
        return one

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Looks until a condition holds; fails after a minute."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not happen"
            self.pause()

    def end(self, job: int, epoch: int = 1) -> Observed:
        """The end of a start, once it is observed."""
        self.until(lambda: self.observed(job, epoch).ended, f"the end of start {epoch} of job {job}")
        return self.observed(job, epoch)


class EngineConformance:
    """Promises of every engine."""

    def test_facts_are_those_of_the_factory(self, case: Case) -> None:
        assert case.engine.capabilities == case.factory.capabilities
        assert case.engine.enforces

    def test_nodes_have_names_of_their_own(self, case: Case) -> None:
        names = case.node_names()
        assert names
        assert len(set(names)) == len(names)
        case.reopen()
        assert case.node_names() == names

    def test_without_a_start_nothing_is_observed(self, case: Case) -> None:
        assert case.starts() == []

    def test_a_launched_start_is_observed_at_once(self, case: Case) -> None:
        before = case.now()
        case.launch(1)
        one = case.observed(1)
        assert (one.ended, one.status) == (None, None)
        assert before - 1 <= one.since <= case.now() + 1

    def test_a_launched_start_is_never_lost(self, case: Case) -> None:
        """The daemon may die as soon as `launch` returns."""
        case.launch(1)
        case.launch(2, work=Work.SHORT)
        case.reopen()
        assert case.observed(1).ended is None
        assert case.end(2).ended is Exit.COMPLETED

    def test_a_start_that_completes_has_status_0(self, case: Case) -> None:
        before = case.now()
        case.launch(1, work=Work.SHORT)
        end = case.end(1)
        assert (end.ended, end.status, end.message) == (Exit.COMPLETED, 0, "")
        assert before - 1 <= end.since <= case.now() + 1

    def test_an_endless_start_lives_until_it_is_stopped(self, case: Case) -> None:
        case.launch(1)
        case.launch(2, work=Work.SHORT)
        case.end(2)
        assert case.observed(1).ended is None

    def test_a_signal_stops_a_start(self, case: Case) -> None:
        case.launch(1)
        case.signal(1, 1)
        assert case.end(1).ended is Exit.STOPPED

    def test_a_kill_stops_a_start(self, case: Case) -> None:
        case.launch(1)
        case.kill(1, 1)
        assert case.end(1).ended is Exit.STOPPED

    @pytest.mark.parametrize("name", ["signal", "kill"])
    def test_a_command_survives_the_daemon(self, case: Case, name: str) -> None:
        case.launch(1)
        case.command(name, 1, 1)
        case.reopen()
        assert case.end(1).ended is Exit.STOPPED

    @pytest.mark.parametrize("name", ["signal", "kill"])
    def test_a_new_daemon_stops_a_start_that_it_found(self, case: Case, name: str) -> None:
        case.launch(1)
        case.reopen()
        case.command(name, 1, 1)
        assert case.end(1).ended is Exit.STOPPED

    def test_an_end_is_the_same_whenever_it_is_observed(self, case: Case) -> None:
        case.launch(1)
        case.kill(1, 1)
        case.launch(2, work=Work.SHORT)
        ends = [case.end(1), case.end(2)]
        case.pause()
        assert [case.observed(1), case.observed(2)] == ends
        case.reopen()
        assert [case.observed(1), case.observed(2)] == ends

    def test_a_second_launch_of_a_living_start_does_nothing(self, case: Case) -> None:
        case.launch(1)
        since = case.observed(1).since
        case.launch(1)
        case.reopen()
        case.launch(1)
        assert len(case.starts()) == 1
        assert case.observed(1).ended is None
        assert case.observed(1).since >= since
        case.kill(1, 1)
        assert case.end(1).ended is Exit.STOPPED

    def test_a_second_launch_of_an_ended_start_does_nothing(self, case: Case) -> None:
        case.launch(1, work=Work.SHORT)
        end = case.end(1)
        case.launch(1, work=Work.SHORT)
        assert case.starts() == [end]

    def test_no_start_begins_while_an_older_one_lives(self, case: Case) -> None:
        case.launch(1)
        with pytest.raises(OSError, match="start 1 of job 1"):
            case.launch(1, epoch=2)
        case.reopen()
        with pytest.raises(OSError, match="start 1 of job 1"):
            case.launch(1, epoch=2)
        assert [(one.job, one.epoch, one.ended) for one in case.starts()] == [(1, 1, None)]

    def test_the_next_start_may_begin_once_the_older_one_ended(self, case: Case) -> None:
        case.launch(1)
        case.signal(1, 1)
        end = case.end(1)
        case.launch(1, epoch=2)
        assert case.observed(1) == end
        assert case.observed(1, epoch=2).ended is None
        case.forget(1, 1)
        assert [(one.job, one.epoch) for one in case.starts()] == [(1, 2)]

    def test_a_stale_start_ends_without_completing(self, case: Case) -> None:
        case.launch(1, epoch=2, work=Work.SHORT)
        case.end(1, epoch=2)
        case.launch(1, epoch=1, work=Work.SHORT)
        assert case.end(1, epoch=1).ended not in (None, Exit.COMPLETED)

    @pytest.mark.parametrize("name", COMMANDS)
    def test_a_command_to_an_ended_start_does_nothing(self, case: Case, name: str) -> None:
        case.launch(1, work=Work.SHORT)
        end = case.end(1)
        case.command(name, 1, 1)
        case.pause()
        assert case.starts() == [end]

    @pytest.mark.parametrize("name", COMMANDS)
    def test_a_command_to_an_unknown_start_does_nothing(self, case: Case, name: str) -> None:
        case.launch(1)
        for job, epoch in ((1, 2), (5, 1)):
            case.command(name, job, epoch)
            case.forget(job, epoch)
        case.pause()
        assert [(one.job, one.epoch, one.ended) for one in case.starts()] == [(1, 1, None)]

    def test_repeated_commands_do_what_one_does(self, case: Case) -> None:
        case.launch(1)
        for name in ("resize", "signal", "kill"):
            for _ in range(3):
                case.command(name, 1, 1)
        end = case.end(1)
        assert end.ended is Exit.STOPPED
        assert case.starts() == [end]

    def test_a_resized_start_runs_on(self, case: Case) -> None:
        case.launch(1)
        case.command("resize", 1, 1)
        case.pause()
        assert case.observed(1).ended is None
        case.reopen()
        assert case.observed(1).ended is None
        case.signal(1, 1)
        assert case.end(1).ended is Exit.STOPPED

    def test_a_command_concerns_one_job_only(self, case: Case) -> None:
        case.launch(1)
        case.launch(2)
        case.kill(1, 1)
        case.end(1)
        assert case.observed(2).ended is None

    def test_an_ended_start_is_forgotten_for_good(self, case: Case) -> None:
        case.launch(1, work=Work.SHORT)
        case.end(1)
        case.forget(1, 1)
        case.forget(1, 1)
        assert case.starts() == []
        case.reopen()
        assert case.starts() == []

    def test_a_living_start_is_not_forgotten(self, case: Case) -> None:
        case.launch(1)
        with pytest.raises(OSError, match="start 1 of job 1"):
            case.forget(1, 1)
        assert case.observed(1).ended is None

    def test_another_job_takes_what_an_ended_one_had(self, case: Case) -> None:
        """Its end is observed only once its GPUs are free; it need not be forgotten for that."""
        case.launch(1)
        case.kill(1, 1)
        case.end(1)
        case.launch(2, work=Work.SHORT)
        assert case.end(2).ended is Exit.COMPLETED

    def test_each_command_of_a_batch_ends_by_itself(self, case: Case) -> None:
        """One that is refused says nothing about those before and after it."""
        case.launch(1)
        commands: list[Command] = [
            case.launch_of(2, 1, Work.ENDLESS),
            ForgetStart(1, 1),
            case.launch_of(1, 2, Work.ENDLESS),
            case.launch_of(3, 1, Work.ENDLESS),
        ]
        errors = case.engine.carry_out(commands)
        assert [type(error) is not type(None) for error in errors] == [False, True, True, False]
        assert all(isinstance(error, OSError) for error in errors if error is not None)
        living = {(one.job, one.epoch) for one in case.starts() if one.ended is None}
        assert living == {(1, 1), (2, 1), (3, 1)}


class ProcessCase(Case):
    """An engine that runs commands."""

    @abstractmethod
    def run(
        self,
        command: Sequence[str],
        *,
        job: int = 1,
        epoch: int = 1,
        ranks: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Launches a command in the folder `directory`."""

    @property
    @abstractmethod
    def directory(self) -> Path:
        """A folder that this process and the starts can write to."""

    @abstractmethod
    def run_dir(self, job: int) -> Path:
        """The run folder of a job."""

    def read_output(self, offset: int, limit: int, job: int = 1, rank: int = 0) -> OutputPiece:
        """A piece of what a rank printed in all starts of a job."""
        folder = self.run_dir(job).parent / "output"
        return self.engine.read_output(OutputRequest(job, folder, getuser(), "", rank, offset, limit))

    def output(self, job: int = 1, rank: int = 0) -> str:
        """The first megabyte of it."""
        return self.read_output(0, 2**20, job, rank).data.decode()

    def prints(self, text: str, rank: int = 0) -> None:
        """Waits until a rank of job 1 has printed a text."""
        self.until(lambda: text in self.output(1, rank), f"{text!r} of rank {rank}")


def _shell(source: str) -> list[str]:
    return ["/bin/sh", "-c", source]


def _python(source: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", source]


_ON_SIGNAL = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: {action})
print("up", flush=True)
while True: time.sleep(60)
"""


class ProcessConformance(EngineConformance):
    """Promises of engines that run processes."""

    @pytest.mark.parametrize(
        ("source", "ended", "status"),
        [
            ("exit 0", Exit.COMPLETED, 0),
            (f"exit {EXIT_STOPPED}", Exit.STOPPED, EXIT_STOPPED),
            ("exit 3", Exit.FAILED, 3),
            ("exit 143", Exit.FAILED, 143),
            ("kill -KILL $$", Exit.KILLED, -9),
            ("kill -TERM $$", Exit.KILLED, -15),
        ],
    )
    def test_an_exit_status_says_how_it_ended(
        self, process_case: ProcessCase, source: str, ended: Exit, status: int
    ) -> None:
        process_case.run(_shell(source))
        end = process_case.end(1)
        assert (end.ended, end.status) == (ended, status)
        process_case.reopen()
        assert process_case.observed(1) == end

    def test_a_command_that_does_not_exist_fails(self, process_case: ProcessCase) -> None:
        process_case.run(["no-such-command"])
        end = process_case.end(1)
        assert end.ended is Exit.FAILED
        assert "no-such-command" in end.message

    def test_no_shell_reads_the_command(self, process_case: ProcessCase) -> None:
        words = ["a b", "$HOME; exit 3", "new\nline", "'\"", ""]
        process_case.run([*_python("import os, sys; print(sys.argv[1:], os.getcwd())"), *words])
        assert process_case.end(1).ended is Exit.COMPLETED
        assert process_case.output() == f"{words} {process_case.directory}\n"

    def test_the_environment_is_the_launchs_and_the_engines(
        self, process_case: ProcessCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_OF_THE_DAEMON", "1")
        source = "import os; print(sorted(os.environ.items()))"
        process_case.run(_python(source), epoch=3, environment={"MINE": "1\n2"})
        assert process_case.end(1, epoch=3).ended is Exit.COMPLETED
        found = dict(eval(process_case.output()))
        assert "SECRET_OF_THE_DAEMON" not in found
        wanted = {
            "MINE": "1\n2",
            "MUSTER_RUN_DIR": str(process_case.run_dir(1)),
            "MUSTER_EPOCH": "3",
            "RANK": "0",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_WORLD_SIZE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        assert {name: found.get(name) for name in wanted} == wanted
        assert {"PATH", "HOME", "USER", "LOGNAME", "MASTER_ADDR", "MASTER_PORT"} <= found.keys()

    def test_output_of_all_starts_is_kept_by_rank(self, process_case: ProcessCase) -> None:
        for epoch in (1, 2):
            process_case.run(
                _shell('echo "start $MUSTER_EPOCH"; echo "rank $RANK" >&2'), epoch=epoch, ranks=2
            )
            process_case.end(1, epoch)
        for rank in (0, 1):
            assert process_case.output(1, rank) == f"start 1\nrank {rank}\nstart 2\nrank {rank}\n"

    def test_output_is_read_in_pieces_while_it_grows(self, process_case: ProcessCase) -> None:
        assert process_case.read_output(0, 10) == OutputPiece(b"", 0), "nothing has started yet"
        process_case.run(_shell("echo 0123456789; while ! test -e go-on; do sleep 0.1; done; echo more"))
        process_case.prints("9\n")
        assert process_case.read_output(0, 4) == OutputPiece(b"0123", 4)
        assert process_case.read_output(4, 100) == OutputPiece(b"456789\n", 11)
        assert process_case.read_output(-3, 2) == OutputPiece(b"89", 10)
        assert process_case.read_output(11, 100) == OutputPiece(b"", 11)
        (process_case.directory / "go-on").touch()
        process_case.end(1)
        process_case.forget(1, 1)
        assert process_case.read_output(11, 100) == OutputPiece(b"more\n", 16)

    def test_a_start_that_is_launched_twice_runs_once(self, process_case: ProcessCase) -> None:
        for _ in range(2):
            process_case.run(_shell("echo ran"))
            process_case.reopen()
        process_case.end(1)
        assert process_case.output() == "ran\n"

    def test_a_running_start_makes_older_ones_stale(self, process_case: ProcessCase) -> None:
        for epoch in (1, 2):
            process_case.run(_shell("echo up"), epoch=epoch)
            process_case.end(1, epoch)
        with pytest.raises(Stale):
            RunFolder(process_case.run_dir(1), 1).check_newest()
        RunFolder(process_case.run_dir(1), 2).check_newest()

    def test_a_stale_start_runs_no_command(self, process_case: ProcessCase) -> None:
        process_case.run(_shell("echo $MUSTER_EPOCH"), epoch=2)
        process_case.end(1, 2)
        process_case.forget(1, 2)
        process_case.run(_shell("echo $MUSTER_EPOCH"), epoch=1)
        assert process_case.end(1, 1).ended is Exit.LOST
        assert process_case.output() == "2\n"

    @pytest.mark.parametrize(
        ("action", "ended", "status"),
        [
            (f"sys.exit({EXIT_STOPPED})", Exit.STOPPED, EXIT_STOPPED),
            ("sys.exit(128 + 15)", Exit.STOPPED, 143),
            ("sys.exit(0)", Exit.COMPLETED, 0),
            ("sys.exit(4)", Exit.FAILED, 4),
        ],
    )
    def test_a_signal_lets_each_rank_save_and_end(
        self, process_case: ProcessCase, action: str, ended: Exit, status: int
    ) -> None:
        process_case.run(
            _python(_ON_SIGNAL.format(action=f"(print('saved', flush=True), {action})")), ranks=2
        )
        for rank in (0, 1):
            process_case.prints("up", rank)
        process_case.signal(1, 1)
        end = process_case.end(1)
        assert (end.ended, end.status) == (ended, status)
        assert [process_case.output(1, rank) for rank in (0, 1)] == ["up\nsaved\n"] * 2

    def test_a_start_that_ignores_a_signal_lives_until_the_kill(self, process_case: ProcessCase) -> None:
        """The grace is the daemon's: an engine kills nothing by itself."""
        process_case.run(_python(_ON_SIGNAL.format(action="print('ignored', flush=True)")))
        process_case.prints("up")
        process_case.signal(1, 1)
        process_case.prints("ignored")
        assert process_case.observed(1).ended is None
        process_case.kill(1, 1)
        end = process_case.end(1)
        assert (end.ended, end.status) == (Exit.STOPPED, -9)

    def test_each_signal_is_sent_once(self, process_case: ProcessCase) -> None:
        """A daemon that does not know whether its predecessor sent it does not disturb the saving."""
        process_case.run(_python(_ON_SIGNAL.format(action="print('received', flush=True)")))
        process_case.prints("up")
        process_case.signal(1, 1)
        process_case.prints("received")
        process_case.signal(1, 1)
        process_case.reopen()
        process_case.signal(1, 1)
        process_case.signal(1, 1, "SIGUSR1")  # Ends it, after whatever came before.
        process_case.end(1)
        assert process_case.output() == "up\nreceived\n"

    def test_a_rank_that_fails_ends_the_gang(self, process_case: ProcessCase) -> None:
        process_case.run(_shell('if [ "$RANK" = 1 ]; then exit 9; fi; exec sleep 600'), ranks=2)
        end = process_case.end(1)
        assert (end.ended, end.status) == (Exit.FAILED, 9)

    @pytest.mark.parametrize("killed", [False, True])
    def test_an_ended_start_leaves_no_process(self, process_case: ProcessCase, killed: bool) -> None:
        file = process_case.directory / "pid"
        last = "exec sleep 600" if killed else "true"
        process_case.run(
            _shell(
                f"(setsid sh -c 'echo $$ > pid; exec sleep 600' &); while [ ! -s pid ]; do :; done; {last}"
            )
        )
        process_case.until(lambda: file.exists() and file.read_text().strip(), "a process of its own session")
        if killed:
            process_case.kill(1, 1)
        process_case.end(1)
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)
