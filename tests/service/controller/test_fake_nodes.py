"""The controller over nodes without processes and a clock at will: whatever owners, operators and crashes do to it."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.schedulers.contract import Scheduler
from muster.service.controller import Controller
from muster.service.daemon_status import DaemonStatus
from muster.service.engines import Exit, Observed
from muster.service.engines.fake import FakeEngine, Pace, pace_of
from muster.service.home import make_home, store_url
from muster.service.limits import Limits
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import ENDED, State, StateRequest, Submission
from muster.workload.models import synergy_models

CLUSTER = parse_cluster("2x2gpu,6cpu,100gb")
MODELS = {name.lower(): model for name, model in synergy_models().items()}
NAMES = [None, "resnet18", "alexnet", "gnmt"]


class World:
    """A daemon that can be killed between any two of its turns."""

    def __init__(self, folder: Path, scheduler: str | Scheduler, url: str | None = None) -> None:
        make_home(folder)
        self.folder, self.url = folder, url or store_url(folder)
        self.policy = live_scheduler(scheduler, {}, 20.0) if isinstance(scheduler, str) else scheduler
        self.seconds = 0.0
        self.limits = Limits()
        self.cluster = CLUSTER
        self.begin()

    def begin(self) -> None:
        self.store = Store.open(self.url)
        self.store.now = lambda: self.seconds  # type: ignore[method-assign]
        self.engine = self.an_engine()
        status = DaemonStatus(
            policy=self.policy,
            engine="fake",
            engine_capabilities=self.engine.capabilities,
            enforces=self.engine.enforces,
            cluster=self.cluster,
            models=lambda: MODELS,
            round_seconds=20.0,
        )
        self.controller = Controller(self.store, self.engine, status, self.folder, lambda: self.limits)
        self.controller.recover()
        self.status = status

    def an_engine(self) -> FakeEngine:
        return FakeEngine(self.folder / "fake", self.cluster, self.pace, self.clock)

    def clock(self) -> float:
        return self.store.origin + self.seconds

    def pace(self, job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        row = self.store.job(job)
        assert row is not None
        return pace_of(row, allocations, MODELS, self.cluster)

    def turn(self, seconds: float) -> None:
        self.seconds += seconds
        self.controller.turn()
        assert not self.status.condition
        self.check()

    def check(self) -> None:
        """Nothing is given twice, on the books or on the machines."""
        assert not self.controller.jobs.columns.ledger.balance().any()
        gpus: dict[tuple[str, int], int] = defaultdict(int)
        cpus: dict[str, float] = defaultdict(float)
        starts: dict[int, int] = defaultdict(int)
        for interval in self.store.allocation_intervals(open_only=True):
            starts[interval.job] = max(starts[interval.job], interval.epoch)
            here = interval.allocation
            cpus[here.node] += here.cpus
            for gpu in here.gpu_ids:
                gpus[here.node, gpu] += here.milli
        assert all(milli <= 1000 for milli in gpus.values())
        most = max(node.cpus for node in self.cluster.nodes)
        assert all(amount <= most + 1e-6 for amount in cpus.values())
        for job, epoch in starts.items():
            row = self.store.job(job)
            assert row is not None
            assert (row.state, row.epoch) == (State.RUNNING, epoch)

    def die(self) -> None:
        self.store.close()
        self.begin()


def test_what_is_held_and_waits_is_noted_without_a_start(tmp_path: Path) -> None:
    """Jobs that come to a full cluster start nothing, and none starts when the last ones have ended."""
    world = World(tmp_path, "fifo")
    world.store.submit([Submission("ann", a_job(30)) for _ in range(4)])
    world.turn(1.0)
    late = world.store.submit([Submission("ann", a_job(30)) for _ in range(3)])
    for _ in range(8):
        world.turn(1.0)
    noted = [(row["running"], row["waiting"], row["free_gpus"]) for row in world.store.decisions()]
    assert noted == [(4, 0, 0.0), (4, 3, 0.0)]
    for job in late:
        world.store.request_state(job, StateRequest.HOLD)
    for _ in range(60):
        world.turn(1.0)
    row = list(world.store.decisions())[-1]
    assert (row["running"], row["waiting"], row["free_gpus"]) == (0, 0, 4.0)
    world.store.drain("node-1", drained=True)
    count = len(list(world.store.decisions()))
    for _ in range(30):
        world.turn(1.0)
    assert len(list(world.store.decisions())) == count
    world.store.close()


@pytest.mark.parametrize("scheduler", ["srtf+tune-plus", "las+tune-plus", "srtf"])
def test_a_place_is_kept_while_those_before_are_still_saving(tmp_path: Path, scheduler: str) -> None:
    """A decision that falls into these seconds finds the GPUs given to those who wait for them."""
    world = World(tmp_path, scheduler)
    world.store.submit([Submission("ann", a_job(400)) for _ in range(4)])
    for _ in range(10):
        world.turn(1.0)
    stop, late = world.engine.signal, []
    world.engine.signal = lambda *start: late.append(start)  # type: ignore[method-assign]
    world.store.submit([Submission("ann", a_job(30)) for _ in range(6)])
    for _ in range(10):
        world.turn(0.5)
    assert late, "no job was asked to make room"
    planned = dict(world.controller.jobs.columns.plan)
    assert sum(len(here.gpu_ids) for allocations in planned.values() for here in allocations) == 4
    for start in late:
        stop(*start)
    for _ in range(3):
        world.turn(0.5)
    running = [row.id for row in world.store.jobs() if row.state is State.RUNNING]
    assert len(running) == 4
    world.store.close()


@pytest.mark.parametrize("scheduler", ["gittins+joint", "gittins", "las", "slurm"])
def test_a_daemon_begins_again_after_all_jobs_have_ended(tmp_path: Path, scheduler: str) -> None:
    """With all that its scheduler has learned from jobs that are no longer here."""
    world = World(tmp_path, scheduler)
    world.store.submit([Submission("ann", a_job(2)) for _ in range(12)])
    for _ in range(40):
        world.turn(1.0)
    assert all(row.state is State.COMPLETED for row in world.store.jobs())
    world.die()
    world.turn(1.0)
    job = world.store.submit([Submission("ann", a_job(2))])[0]
    for _ in range(10):
        world.turn(1.0)
    row = world.store.job(job)
    assert row is not None
    assert row.state is State.COMPLETED
    world.store.close()


def test_a_waiting_job_has_its_reason_on_record(tmp_path: Path) -> None:
    """As long as it waits in its row, and as a stretch of time once it runs."""
    world = World(tmp_path, "fifo")
    job = world.store.submit([Submission("ann", a_job(20)) for _ in range(CLUSTER.total_gpus + 1)])[-1]
    world.turn(1.0)
    waiting = world.store.job(job)
    assert waiting is not None
    assert (waiting.reason, waiting.reason_since) == ("no_gpus", 1.0)
    assert waiting.reason_parameters == {"needs": 1.0, "free": 0.0}
    while (row := world.store.job(job)) is not None and row.state is not State.RUNNING:
        world.turn(1.0)
    assert row is not None
    assert row.reason == "placed"
    explained = [one for one in world.store.pending_intervals() if one.job == job]
    assert [(one.reason, one.since, one.until) for one in explained][-1:] == [
        ("no_gpus", 1.0, row.last_start)
    ]
    world.store.close()


def test_a_start_is_charged_from_its_launch_by_the_next_daemon(tmp_path: Path) -> None:
    """The one that decided it died before it could launch it, and for longer than the job may run."""
    world = World(tmp_path, "fifo")
    world.engine.launch = lambda launch: None  # type: ignore[method-assign]
    job = world.store.submit([Submission("ann", limited_job(steps=20, seconds=30.0))])[0]
    world.turn(1.0)
    world.seconds += 1000.0
    world.die()
    for _ in range(30):
        world.turn(1.0)
    row = world.store.job(job)
    assert row is not None
    assert (row.state, row.epoch) == (State.COMPLETED, 1)
    assert row.run_seconds == pytest.approx(20.0, abs=2.0)
    world.store.close()


def test_a_job_that_died_just_before_its_time_limit_goes_on(tmp_path: Path) -> None:
    """It was found to be over its limit before the engine said that it had ended by itself."""
    world = World(tmp_path, "fifo")
    job = world.store.submit([Submission("ann", limited_job(steps=100, seconds=30.0))])[0]
    for _ in range(30):
        world.turn(1.0)
    observe, before = world.engine.observe, world.engine.observe()
    died = Observed(job, 1, Exit.KILLED, world.clock() + 0.5, -9)
    for seen in (before, [died]):
        world.engine.observe = lambda seen=seen: seen  # type: ignore[method-assign, misc]
        world.turn(1.0)
    world.engine.observe = observe  # type: ignore[method-assign]
    for _ in range(10):
        world.turn(1.0)
    row = world.store.job(job)
    assert row is not None
    assert (row.state, row.epoch) == (State.TIMED_OUT, 2)
    assert row.run_seconds == pytest.approx(30.0, abs=2.0)
    world.store.close()


def test_a_silent_job_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    """A script with a stop signal reports nothing to the daemon; it finds its own checkpoint all the same."""
    world = World(tmp_path, "fifo")
    request = JobRequest(name="job", command=("true",), directory="/", steps=100, stop_signal="SIGUSR1")
    (job,) = world.store.submit([Submission("ann", request)])
    for after in (StateRequest.HOLD, StateRequest.RELEASE) * 2:
        for _ in range(30):
            world.turn(1.0)
        world.store.request_state(job, after)
        world.turn(1.0)
        world.die()
    while world.store.living():
        world.turn(1.0)
        assert world.seconds < 1000
    row = world.store.job(job)
    assert row is not None
    assert (row.state, row.epoch) == (State.COMPLETED, 3)
    assert 100 <= row.attained_gpu_seconds <= 110, "a step a second, each of them once"
    world.store.close()


def test_an_engine_knows_by_which_signal_a_job_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[str] = []
    monkeypatch.setattr(FakeEngine, "launch", lambda _, launch: launched.append(launch.stop_signal))
    world = World(tmp_path, "fifo")
    requests = [a_job(1), a_job(1).model_copy(update={"stop_signal": "SIGUSR1"})]
    world.store.submit([Submission("ann", request) for request in requests])
    world.turn(1.0)
    assert launched == ["SIGTERM", "SIGUSR1"]
    world.store.close()


def a_job(steps: int) -> JobRequest:
    return JobRequest(
        name="job", command=("true",), directory="/", steps=steps, min_runtime_seconds=1.0, grace_seconds=60.0
    )


def limited_job(steps: int, seconds: float) -> JobRequest:
    return a_job(steps).model_copy(update={"time_limit_seconds": seconds})


JOB = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([1, 1, 1, 2, 4]),
        "model": st.sampled_from(NAMES),
        "steps": st.integers(1, 400),
        "held": st.sampled_from([False, False, False, True]),
        "priority": st.integers(0, 3),
    }
)
ACT = st.one_of(
    st.tuples(st.just("submit"), st.lists(JOB, min_size=1, max_size=4)),
    st.tuples(st.just("pass"), st.floats(0.1, 60.0)),
    st.tuples(
        st.sampled_from([StateRequest.CANCEL, StateRequest.HOLD, StateRequest.RELEASE]), st.integers(1, 12)
    ),
    st.tuples(st.sampled_from(["drain", "undrain"]), st.sampled_from([node.name for node in CLUSTER.nodes])),
    st.tuples(st.just("die"), st.none()),
)


@pytest.mark.parametrize("scheduler", ["fifo", "las+tune-plus", "srtf+tune"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts=st.lists(ACT, max_size=25))
def test_every_job_comes_to_the_end_that_its_owner_wants(
    scheduler: str, acts: list[tuple[str, object]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live_through(World(Path(folder), scheduler), acts)


def do(world: World, act: str, what: object) -> dict[int, StateRequest]:
    """Do one thing to a world; the requests of owners that it accepts, by job."""
    if act == "submit":
        assert isinstance(what, list)
        requests = [JobRequest(name="job", command=("true",), directory="/", **one) for one in what]
        ids = world.store.submit([Submission("ann", request) for request in requests])
        return {job: StateRequest.HOLD for job, one in zip(ids, requests, strict=True) if one.held}
    if act == "pass":
        assert isinstance(what, float)
        world.turn(what)
    elif act in ("drain", "undrain"):
        world.store.drain(str(what), act == "drain")
    elif act == "die":
        world.die()
    elif isinstance(act, StateRequest) and isinstance(what, int):
        with suppress(InputError):
            return {what: act} if world.store.request_state(what, act) is not None else {}
    return {}


def live_through(world: World, acts: list[tuple[str, object]]) -> None:
    """Do these things to a world, and see that every job ends as it should."""
    wanted: dict[int, StateRequest] = {}
    for act, what in acts:
        wanted |= do(world, act, what)
        world.turn(0.1)
    for node in CLUSTER.nodes:
        world.store.drain(node.name, False)
    for _ in range(400):
        world.turn(25.0)
        left = [row for row in world.store.living() if row.state is not State.HELD]
        if not left:
            break
    assert not left, left
    for row in world.store.jobs(limit=1000):
        assert row.state in ENDED or (row.state is State.HELD and wanted[row.id] is StateRequest.HOLD), row
        if row.state is State.COMPLETED:
            assert row.steps_done == row.request.steps
            held = sum(
                one.allocation.gpus * (one.until - one.since)
                for one in world.store.allocation_intervals(row.id)
                if one.until is not None
            )
            assert held == pytest.approx(row.attained_gpu_seconds)
    world.store.close()
