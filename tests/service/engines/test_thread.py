"""Engines whose calls take long: no call holds up the controller, and what it reads is never from before its commands.

The engines here wait for events, not for time: a call is as slow as the test wants it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest

from muster.cluster.shipped import parse_cluster
from muster.service.engines import (
    Command,
    EngineCapabilities,
    EngineNode,
    EngineView,
    Exit,
    ForgetStart,
    KillStart,
    Observed,
    Report,
    ReportFound,
    ReportRequest,
)
from muster.service.engines.fake import FakeEngine, Pace
from muster.service.engines.run_folders import ReadsRunFolders
from muster.service.engines.thread import EngineThread
from muster.service.home import make_home
from muster.service.request import JobRequest
from muster.service.store.rows import Submission
from tests.service.engines.slow_engine import CLUSTER, JOBS, controller_over

PATIENCE_SECONDS = 60.0
(NODE,) = parse_cluster("1x2gpu,4cpu,8gb").nodes


class GatedEngine(ReadsRunFolders):
    """Each call waits until the test lets it pass; a poll counts the commands that were carried out before it."""

    capabilities = EngineCapabilities(can_resize=False, runs_as_users=False, poll_seconds=0.001)
    enforces = "nothing"

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.waits = threading.Semaphore(0)
        self.batches: list[list[Command]] = []
        self.fails = False
        self.starts: list[Observed] = []

    def carry_out(self, commands: Sequence[Command]) -> Sequence[Exception | None]:
        self._pass()
        self.batches.append(list(commands))
        return [OSError("refused") if isinstance(command, ForgetStart) else None for command in commands]

    def poll(self) -> EngineView:
        self._pass()
        if self.fails:
            raise OSError("away")
        return EngineView(self.starts, [EngineNode(NODE)] * len(self.batches))

    def read_report(self, request: ReportRequest) -> ReportFound:
        self._pass()
        return ReportFound(Report(float(request.epoch)))

    def _pass(self) -> None:
        self.waits.release()
        assert self.gate.acquire(timeout=PATIENCE_SECONDS)

    def until_it_waits(self) -> None:
        assert self.waits.acquire(timeout=PATIENCE_SECONDS)

    def let_pass(self) -> None:
        self.gate.release()


@pytest.fixture
def engine() -> GatedEngine:
    return GatedEngine()


@pytest.fixture
def woken() -> threading.Semaphore:
    return threading.Semaphore(0)


@pytest.fixture
def thread(engine: GatedEngine, woken: threading.Semaphore) -> EngineThread:
    thread = EngineThread(engine, woken.release)
    thread.start()
    return thread


def stop(thread: EngineThread, engine: GatedEngine) -> None:
    engine.gate.release(1000)
    thread.stop(PATIENCE_SECONDS)


def test_a_turn_of_commands_is_one_batch(engine: GatedEngine, thread: EngineThread) -> None:
    """Also what is sent while the engine is busy."""
    engine.until_it_waits()  # in its first poll
    thread.send([KillStart(1, 1), ForgetStart(2, 1)])
    thread.send([KillStart(3, 1)])
    assert thread.results() == []
    assert thread.newest_view() is None
    engine.let_pass()
    engine.until_it_waits()
    engine.let_pass()
    engine.until_it_waits()  # the commands are through
    ended = [(result.command, str(result.error or "")) for result in thread.results()]
    assert ended == [(KillStart(1, 1), ""), (ForgetStart(2, 1), "refused"), (KillStart(3, 1), "")]
    assert engine.batches == [[KillStart(1, 1), ForgetStart(2, 1), KillStart(3, 1)]]
    stop(thread, engine)


def test_a_view_from_before_the_commands_is_withdrawn(engine: GatedEngine, thread: EngineThread) -> None:
    """A controller that knows that a start was launched must not read a poll that could not see it."""
    engine.until_it_waits()
    thread.send([KillStart(1, 1)])
    engine.let_pass()
    engine.until_it_waits()  # the first poll is published, the command waits
    engine.let_pass()
    engine.until_it_waits()  # the command is through, the poll after it waits
    assert len(thread.results()) == 1
    assert thread.newest_view() is None
    engine.let_pass()
    engine.until_it_waits()
    view = thread.newest_view()
    assert view is not None
    assert len(view.nodes) == 1
    stop(thread, engine)


def test_a_failed_poll_is_raised_until_one_succeeds(
    engine: GatedEngine, thread: EngineThread, woken: threading.Semaphore
) -> None:
    engine.until_it_waits()
    engine.fails = True
    engine.let_pass()
    engine.until_it_waits()
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            thread.newest_view()
    engine.fails = False
    engine.let_pass()
    engine.until_it_waits()
    assert thread.newest_view() is not None
    assert woken.acquire(timeout=PATIENCE_SECONDS)
    assert thread.age_seconds < PATIENCE_SECONDS
    stop(thread, engine)


def test_a_batch_that_breaks_fails_every_command(engine: GatedEngine, thread: EngineThread) -> None:
    engine.until_it_waits()

    def breaks(commands: Sequence[Command]) -> Sequence[Exception | None]:
        engine._pass()
        raise OSError("no controller")

    engine.carry_out = breaks  # type: ignore[method-assign]
    thread.send([KillStart(1, 1), KillStart(2, 1)])
    engine.let_pass()
    engine.until_it_waits()
    engine.let_pass()
    engine.until_it_waits()
    assert [str(result.error) for result in thread.results()] == ["no controller"] * 2
    stop(thread, engine)


def test_a_view_that_shows_an_end_comes_with_its_last_words(
    engine: GatedEngine, thread: EngineThread
) -> None:
    """Also where the start was not watched yet when the poll found its end, as by a new daemon."""
    engine.starts = [Observed(1, 4, Exit.COMPLETED, 0.0), Observed(2, 7, None, 0.0)]
    engine.until_it_waits()  # in its first poll
    engine.let_pass()
    engine.until_it_waits()  # in its second one; the first was published
    thread.watch([a_request(1, 4), a_request(2, 7)])
    assert thread.newest_view() is None
    engine.let_pass()
    engine.until_it_waits()  # in the report of the start that has ended, which does not hold up the caller
    assert (thread.newest_view(), thread.reports()) == (None, {})
    engine.let_pass()
    engine.until_it_waits()
    assert thread.newest_view() is not None
    heard = thread.reports()
    assert {key: one.found.report for key, one in heard.items()} == {(1, 4): Report(4.0)}
    stop(thread, engine)


def test_a_view_without_last_words_of_new_starts_is_withdrawn(
    engine: GatedEngine, thread: EngineThread
) -> None:
    """They are watched while the thread reads what others report, after the poll that shows their ends."""
    engine.starts = [Observed(1, 4, Exit.COMPLETED, 0.0), Observed(2, 7, Exit.COMPLETED, 0.0)]
    engine.until_it_waits()
    thread.watch([a_request(1, 4)])
    engine.let_pass()
    engine.until_it_waits()  # in the report of the first
    thread.watch([a_request(1, 4), a_request(2, 7)])
    engine.let_pass()
    engine.until_it_waits()  # in the next poll
    assert thread.newest_view() is None
    for _ in range(3):  # that poll and both reports
        engine.let_pass()
        engine.until_it_waits()
    assert thread.newest_view() is not None
    assert thread.reports().keys() == {(1, 4), (2, 7)}
    stop(thread, engine)


def a_request(job: int, epoch: int) -> ReportRequest:
    return ReportRequest(job, epoch, Path("/run"), Path("/output"), None)


def test_reports_of_living_starts_are_read_when_asked_for(engine: GatedEngine, thread: EngineThread) -> None:
    engine.starts = [Observed(2, 7, None, 0.0)]
    engine.until_it_waits()
    thread.watch([a_request(2, 7)])
    engine.let_pass()
    engine.until_it_waits()  # in the next poll: no report was read
    thread.ask_for_reports()
    for _ in range(2):
        engine.let_pass()
        engine.until_it_waits()
    assert thread.reports()[2, 7].found.report == Report(7.0)
    engine.let_pass()
    engine.until_it_waits()
    assert thread.reports() == {}, "it was asked for once"
    stop(thread, engine)


def test_without_the_thread_the_caller_does_its_work(engine: GatedEngine) -> None:
    engine.gate.release(1000)
    alone = EngineThread(engine)
    alone.send([KillStart(1, 1)])
    assert [result.command for result in alone.results()] == [KillStart(1, 1)]
    assert alone.newest_view() is not None
    assert alone.age_seconds == 0.0


class GatedFakeEngine(FakeEngine):
    """Fake nodes behind a gate."""

    gates: GatedEngine

    def carry_out(self, commands: Sequence[Command]) -> Sequence[Exception | None]:
        self.gates.carry_out(commands)
        return super().carry_out(commands)

    def poll(self) -> EngineView:
        self.gates._pass()
        return super().poll()


def test_a_turn_ends_while_its_engine_is_busy(tmp_path: Path) -> None:
    """200 starts on 512 nodes; no call of the engine returns before the test says so."""
    make_home(tmp_path)
    fake = GatedFakeEngine(tmp_path / "fake", CLUSTER, lambda *_: Pace(inf, 1.0))
    gates = fake.gates = GatedEngine()
    controller, store = controller_over(fake, tmp_path, "fifo")
    controller.recover()
    request = JobRequest(name="job", command=("true",), directory="/", gpus=2)
    store.submit([Submission("ann", request) for _ in range(JOBS)])
    controller._engine.start()
    gates.until_it_waits()
    assert controller.turn()
    assert not controller.jobs.starts, "nothing is decided before it is known what runs"
    gates.let_pass()
    gates.until_it_waits()
    assert controller.turn()
    assert len(controller.jobs.starts) == JOBS
    assert controller.turn()
    assert not any(start.launched for start in controller.jobs.starts.values())
    for _ in range(2):  # the poll that was under way, and the commands
        gates.let_pass()
        gates.until_it_waits()
    assert [len(batch) for batch in gates.batches] == [JOBS]
    assert controller.turn()
    assert all(start.launched for start in controller.jobs.starts.values())
    gates.gate.release(1000)
    controller._engine.stop(PATIENCE_SECONDS)
    store.close()


class StalledDisk(FakeEngine):
    """Fake nodes whose jobs' folders do not answer."""

    gates: GatedEngine

    def read_report(self, request: ReportRequest) -> ReportFound:
        self.gates._pass()
        return super().read_report(request)


def test_a_disk_that_does_not_answer_holds_up_no_turn(tmp_path: Path) -> None:
    """Jobs are taken and decided upon; their starts wait for it, as they need the folders."""
    make_home(tmp_path)
    fake = StalledDisk(tmp_path / "fake", CLUSTER, lambda *_: Pace(inf, 1.0))
    gates = fake.gates = GatedEngine()
    controller, store = controller_over(fake, tmp_path, "fifo")
    controller.recover()
    gates.let_pass()
    request = JobRequest(name="job", command=("true",), directory="/")
    store.submit([Submission("ann", request)])
    assert controller.turn()  # without the thread: what is decided is launched
    gates.until_it_waits()
    controller._engine.ask_for_reports()
    controller._engine.start()
    gates.until_it_waits()  # in the report of the first job, for good
    store.submit([Submission("ann", request) for _ in range(2)])
    assert controller.turn()
    assert len(controller.jobs.starts) == 3
    gates.gate.release(1000)
    controller._engine.stop(PATIENCE_SECONDS)
    store.close()
