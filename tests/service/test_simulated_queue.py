"""What is simulated of a queue, where nothing has to be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.as_trace import trace_columns
from muster.service.daemon_status import DaemonStatus
from muster.service.learned_sizes import LearnedSizes
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.simulated_models import simulated_model
from muster.service.simulated_queue import NoEstimate, seconds_of_work
from muster.service.start_question import SeenQueue, question_of
from muster.service.store.rows import AllocationInterval, JobRow, SizeSteps, State
from muster.service.waiting import ClosedNodes
from muster.simulation.start_estimates import ExpectedQueue
from muster.workload.models import synergy_models

from .serving import a_status


def expected(
    rows: Sequence[JobRow],
    status: DaemonStatus,
    drained: Sequence[str] = (),
    held: Sequence[AllocationInterval] = (),
) -> ExpectedQueue:
    question = question_of(SeenQueue(0.0, rows, [], held, ClosedNodes(drained)), status, 40)
    assert question.draws == 1, "all would be the same"
    (found,) = question.answer()
    return found


def starts(found: ExpectedQueue) -> dict[int, float]:
    return {int(job): one.median for job, one in found.starts.items()}


def ends(found: ExpectedQueue) -> dict[int, float]:
    return {int(job): end for job, end in found.ends.items()}


def about(moments: dict[int, float]) -> object:
    """The scheduler's first decision comes a moment after what runs is put where it is."""
    return pytest.approx(moments, abs=0.01)


def row(job: int, state: State = State.QUEUED, **fields: object) -> JobRow:
    request = JobRequest(name="job", command=("true",), directory="/", **fields)  # type: ignore[arg-type]
    return JobRow(job, "ann", request, 0.0, state=state, steps_per_second=1.0, joined=True)


def test_years_of_work_in_turns_of_a_minute_are_soon_simulated(tmp_path: Path) -> None:
    """Three jobs of a year share the two GPUs under las: they end together, after a year and a half."""
    year = 365 * 86_400
    status = replace(a_status(tmp_path, "1x2gpu"), policy=live_scheduler("las", {}, 60.0))
    reply = expected([row(job, steps=year) for job in (1, 2, 3)], status)
    assert max(ends(reply).values()) == pytest.approx(1.5 * year, rel=0.01)
    assert min(ends(reply).values()) > 1.4 * year
    assert max(starts(reply).values()) < 0.01 * year


def test_a_simulated_queue_honours_gpu_shares_and_owners_minima(tmp_path: Path) -> None:
    """Two halves run together; what needs all CPUs waits for the end of both."""
    status = replace(
        a_status(tmp_path, "1x2gpu,8cpu,32gb"), policy=live_scheduler("fifo+requested", {}, 60.0)
    )
    reply = expected(
        [
            row(1, State.RUNNING, gpu_share=0.5, steps=100),
            row(2, gpu_share=0.5, steps=200),
            row(3, cpus=8.0, steps=50),
        ],
        status,
    )
    assert starts(reply) == about({2: 0.0, 3: 200.0})
    assert ends(reply) == about({1: 100.0, 2: 200.0, 3: 250.0})


def test_a_simulated_queue_ends_a_job_at_its_time_limit(tmp_path: Path) -> None:
    """Its limit, less what it has run; a job that has used it up is about to be stopped."""
    status = replace(a_status(tmp_path, "1x4gpu"), policy=live_scheduler("fifo", {}, 60.0))
    limited = [
        replace(row(1, State.RUNNING, steps=1000, time_limit_seconds=300.0), run_seconds=100.0),
        row(2, steps=200, time_limit_seconds=300.0),
        row(3, time_limit_seconds=50.0),
        replace(row(4, State.RUNNING, steps=1000, time_limit_seconds=300.0), run_seconds=400.0),
    ]
    assert ends(expected(limited, status)) == about({1: 200.0, 2: 200.0, 3: 50.0, 4: 1.0})


def test_no_job_is_too_long_to_simulate_the_others(tmp_path: Path) -> None:
    """One takes millions of years, by its steps or by a speed that it reports; what fits beside it starts."""
    slow = replace(row(2, State.RUNNING, steps=10**15), steps_per_second=1e-9)
    rows = [row(1, State.RUNNING, steps=10**15), slow, row(3, steps=10), row(4, gpus=2, steps=10**15)]
    held = [
        AllocationInterval(job, 1, NodeAllocation[str]("node-0", (job,), 1000, 1.0, 1.0), 0.0)
        for job in (1, 2)
    ]
    reply = expected(rows, a_status(tmp_path, "1x4gpu"), held=held)
    assert starts(reply)[3] < 43_200, "one turn of a year's work"


def test_a_queue_that_is_too_long_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoEstimate, match="too long"):
        expected([row(job, steps=1) for job in range(1, 2002)], a_status(tmp_path))


@pytest.mark.parametrize(
    "odd",
    [{"gpu_share": 0.0004}, {"tenant": "a\x85b"}, {"constraint": "gpu_type=gpu|h 100"}, {"model": "\x85"}],
)
def test_a_job_refused_today_does_not_prevent_estimates(tmp_path: Path, odd: dict[str, Any]) -> None:
    """An old store holds jobs that were taken before such a request was refused."""
    old = row(2, State.RUNNING, steps=100)
    old = replace(old, request=JobRequest.model_construct(**{**vars(old.request), **odd}))
    taking_all = row(3, gpus=2, steps=10)
    found = starts(expected([old, taking_all], a_status(tmp_path, "1x2gpu")))
    assert found == about({3: 100.0}), "the old job holds a part of one of the two GPUs"


def test_nothing_starts_on_a_drained_node(tmp_path: Path) -> None:
    """Two jobs of four GPUs on the second of two nodes: one after the other; a whole cluster's job never."""
    status = a_status(tmp_path)
    rows = [row(1, gpus=4, steps=100), row(2, gpus=4, steps=50), row(3, gpus=8, steps=10)]
    reply = expected(rows, status, ["node-0"])
    assert starts(reply) == about({1: 0.0, 2: 100.0})
    with pytest.raises(NoEstimate, match="all nodes are drained"):
        expected(rows, status, ["node-0", "node-1"])


def test_a_simulation_leaves_out_only_jobs_that_fit_nowhere(tmp_path: Path) -> None:
    status = a_status(tmp_path, "1x4gpu,8cpu,32gb+1x4a100,8cpu,32gb")
    rows = [row(1, constraint="gpu_type=a100", steps=9), row(2, steps=9), row(3, constraint="label=gone")]
    assert starts(expected(rows, status)) == about({1: 0.0, 2: 0.0})
    assert starts(expected(rows, status, ["node-1"])) == about({2: 0.0})
    with pytest.raises(NoEstimate, match="no waiting job could start"):
        expected(rows[2:], status)


def test_a_job_that_keeps_more_than_there_is_is_left_out(tmp_path: Path) -> None:
    """Its owner allows one GPU, but its script keeps four."""
    kept = replace(row(1, gpus=2, min_gpus=1, max_gpus=4, steps=100), fixed_gpus=4)
    assert starts(expected([kept, row(2, steps=100)], a_status(tmp_path, "1x2gpu"))) == about({2: 0.0})


def test_jobs_without_gpus_and_of_changing_size_are_simulated(tmp_path: Path) -> None:
    rows = [
        row(1, gpus=0, cpus=1, memory_gb=1, steps=100),
        row(2, gpus=2, min_gpus=1, max_gpus=4, steps=100),
        row(3, gpus=2, steps=50),
    ]
    columns = trace_columns(rows, [0.0] * 3, [1.0] * 3)
    assert (columns["min_gpus"], columns["max_gpus"]) == ([None, 1, None], [None, 4, None])
    as_asked = expected(rows, a_status(tmp_path, "1x4gpu,8cpu,100gb"))
    held = [AllocationInterval(2, 1, NodeAllocation("node-0", (0, 1, 2, 3)), 0.0)]
    on_four = expected(rows, a_status(tmp_path, "1x4gpu,8cpu,100gb"), held=held)
    assert ends(on_four) == about({1: 100.0, 2: 200.0, 3: 150.0}), (
        "its speed on four GPUs is twice that on two"
    )
    assert ends(as_asked) == about({1: 100.0, 2: 100.0, 3: 150.0}), (
        "the first one takes a CPU of the third one's share"
    )


def test_work_left_goes_by_the_measured_steps_of_a_model(tmp_path: Path) -> None:
    """A job on 4 GPUs that asks for one: another job of its model has shown that more GPUs do not help."""
    status = a_status(tmp_path, "1x4gpu")
    sizes: dict[str, Any] = {"gpus": 1, "min_gpus": 1, "max_gpus": 4, "steps": 1000}
    flat = (SizeSteps(1, 1, 1.0), SizeSteps(1, 4, 1.0))
    other = replace(row(1, model="own", **sizes), size_steps=flat)
    held = [NodeAllocation("node-0", (0, 1, 2, 3), 4.0, 4.0)]
    for model, work in (("own", 1000.0), ("unlike", 4000.0)):
        running = row(2, State.RUNNING, model=model, **sizes)
        learned = LearnedSizes.of([other, running])
        simulated = simulated_model(running, None, held, learned, status.cluster)
        seconds = seconds_of_work(running, simulated, held, status.cluster, 0.0)
        assert seconds == pytest.approx(work, rel=0.01)


FLAT = tuple(SizeSteps(1, gpus, 1.0) for gpus in (1, 2, 4))
HALVED = tuple(SizeSteps(1, gpus, 1.0 / gpus) for gpus in (1, 2, 4))


@pytest.mark.parametrize("preemptible", [False, True])
@pytest.mark.parametrize("model", [None, "of-their-own", "gnmt"])
@pytest.mark.parametrize("steps", [FLAT, HALVED])
def test_an_estimate_has_the_measured_speed_of_each_size(
    tmp_path: Path, steps: tuple[SizeSteps, ...], model: str | None, preemptible: bool
) -> None:
    """A job on four GPUs that asks for one has 1,000 s to go, on fewer as its steps say."""
    status = replace(
        a_status(tmp_path, "1x4gpu,16cpu,200gb"), policy=live_scheduler("gittins+joint", {}, 60.0)
    )
    sizes: dict[str, Any] = {"gpus": 1, "min_gpus": 1, "max_gpus": 4, "model": model}
    running = row(1, State.RUNNING, steps=1000, preemptible=preemptible, **sizes)
    running = replace(running, size_steps=steps)
    (node,) = status.cluster.nodes
    whole = NodeAllocation(node.name, (0, 1, 2, 3), node.cpus, node.memory_gb, node.storage_gb_per_s)
    held = [AllocationInterval(1, 1, whole, 0.0)]
    assert ends(expected([running], status, held=held))[1] == pytest.approx(1000.0, rel=0.01)
    beside = ends(expected([running, row(2, gpus=2, steps=4000)], status, held=held))
    if preemptible and steps == FLAT:  # It shrinks, which costs it nothing but the restart.
        assert beside == pytest.approx({1: 1060.0, 2: 4060.0}, rel=0.01)
    else:
        assert beside == pytest.approx({1: 1000.0, 2: 5000.0}, rel=0.01)


@pytest.mark.parametrize(
    ("here", "work"),
    [
        (NodeAllocation("gone", (0, 1, 2, 3)), 1000.0),
        (NodeAllocation("node-0", (0, 1, 2, 3)), 4000.0),
    ],
)
def test_work_left_is_finite_where_a_model_says_nothing(
    tmp_path: Path, here: NodeAllocation[str], work: float
) -> None:
    """A job with a step a second holds GPUs of a node that has gone, or no CPU for the input of its model."""
    status = a_status(tmp_path, "1x4gpu,16cpu,200gb")
    running = row(1, State.RUNNING, gpus=1, min_gpus=1, max_gpus=4, steps=1000, model="resnet50")
    seen = SeenQueue(0.0, [running], [], [AllocationInterval(1, 1, here, 0.0)], ClosedNodes())
    assert question_of(seen, status, 1).state.running["known_seconds"].to_list() == [work]


def test_a_job_with_a_model_goes_on_where_its_place_is_not_known(tmp_path: Path) -> None:
    """With the share of its node: without any CPU it would stand still, and no run would end."""
    status = replace(
        a_status(tmp_path, "1x2gpu,8cpu,125gb"),
        policy=live_scheduler("fifo", {}, 60.0),
        models=synergy_models,
    )
    reply = expected([row(1, State.RUNNING, steps=1000, model="gnmt"), row(2, steps=10)], status)
    assert ends(reply) == about({1: 1000.0, 2: 10.0})
