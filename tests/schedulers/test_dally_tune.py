"""Dally's timers with Synergy's tune: both promises in any run, timers respected and no job below its fair share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.problems import InputError
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.leased import Leased
from muster.schedulers.registry import build
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import relative_speed
from tests.building import column, finishes, job, jobs_of, run
from tests.schedulers.test_dally_timers import LEASE, Watched

MODELS = ("resnet18", "gnmt", "m5", "shufflenetv2", "deepspeech", "")


def racked(*racks: tuple[int, ...]) -> Cluster:
    """A rack for each tuple, a machine for each number of GPUs in it, Synergy's 3 cores and 62.5 GB a GPU."""
    nodes = tuple(
        Node(f"r{rack}n{at}", "t", rack, gpus, "v100", gpus, 3.0 * gpus, 62.5 * gpus, 0.0625 * gpus, 1.25)
        for rack, machines in enumerate(racks)
        for at, gpus in enumerate(machines)
    )
    return Cluster("racked", nodes, tuple(f"r{rack}" for rack in range(len(racks))))


class Guaranteed(Watched):
    """Besides the timers: after every decision no running job is slower than on its GPUs' proportional share."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        plan, after = super().decide(snapshot, state)
        with snapshot.transaction() as transaction:
            transaction.try_out(plan.changes)
            assert (snapshot.ledger.balance() == 0).all()
            table = model_table(snapshot.table.models)
            share = snapshot.ledger.books.nodes["share"] / 1e6
            for number, model in zip(snapshot.jobs.index.tolist(), snapshot.jobs.model.tolist(), strict=True):
                for held in snapshot.ledger.holding(number):
                    gpus = len(held.gpu_ids)
                    own = np.array([held.cpus, held.memory_gb, held.storage_gb_per_s]) / gpus
                    fair = relative_speed(table, model, *share[held.node][1:4].tolist())
                    assert relative_speed(table, model, *own.tolist()) >= fair * (1 - 1e-6)
        return plan, after


JOBS = st.lists(
    st.builds(
        lambda submit, gpus, seconds, model: job(float(submit), float(seconds), gpus, model=model),
        st.integers(0, 500),
        st.sampled_from([1, 1, 2, 2, 3, 4, 6, 8]),
        st.integers(10, 700),
        st.sampled_from(MODELS),
    ),
    min_size=2,
    max_size=14,
)
CLUSTERS = st.sampled_from([racked((4, 4), (4, 4)), racked((2, 4), (2, 2, 2)), racked((4,), (3,), (2,))])
NAMES = st.sampled_from(
    ["fifo+tune+delay-timers", "las+tune-plus+manual-timers", "fifo+manual-timers+tune", "dally-tune"]
)


@given(JOBS, CLUSTERS, NAMES)
@settings(max_examples=40, deadline=None)
def test_both_promises_hold(rows: list[dict[str, Any]], cluster: Cluster, name: str) -> None:
    scheduler = build(name, LEASE)
    assert isinstance(scheduler, Leased)
    result = run(jobs_of(*rows), cluster, Guaranteed(scheduler), skip_impossible=True)
    assert result.unfinished == 0
    jobs = result.record.jobs.filter(outcome="completed")
    held = result.record.allocations
    # Held = leased = served, whatever lies beside the GPUs.
    held_seconds = (held["gpus"] * (held["to_seconds"] - held["from_seconds"])).sum()
    assert held_seconds == pytest.approx((jobs["gpus"] * jobs["run_seconds"]).sum())


def test_a_hungry_job_gets_what_a_frugal_one_leaves() -> None:
    frugal, hungry = job(0, 3000, model="gnmt"), job(0, 3000, model="resnet18")
    cluster = racked((2,), (2,))
    plain = finishes(run(jobs_of(frugal, hungry), cluster, "fifo+delay-timers", LEASE))
    tuned = run(jobs_of(frugal, hungry), cluster, "fifo+tune-plus+delay-timers", LEASE)
    assert finishes(tuned)[0] == pytest.approx(plain[0])
    assert plain[1] == pytest.approx(3000)
    # resnet18 is faster on the 5 cores that gnmt leaves than on 3
    assert column(tuned, "finish_seconds")[1] < 0.9 * 3000
    assert column(tuned, "moves") == [0, 0]


def test_a_bidder_finds_its_share_whatever_the_others_were_given() -> None:
    # The first job alone has all the CPUs; when the second comes they are lowered to what each GPU brings.
    trace = jobs_of(job(0, 3000, model="resnet18"), job(50, 500, model="resnet18"))
    result = run(trace, racked((2,)), "fifo+tune+fully-consolidated", LEASE)
    assert column(result, "start_seconds") == [0, 50]
    assert column(result, "moves") == [0, 0]


def test_only_parts_that_resize_alone_go_with_timers() -> None:
    with pytest.raises(InputError, match="both say the placement"):
        build("fifo+opt+delay-timers")
    with pytest.raises(InputError, match="both say the placement"):
        build("fifo+tune+skew")
    assert build("fifo+tune+delay-timers").describe()["parts"] == {
        "queue_order": "fifo",
        "allocation": "tune",
        "placement": "delay-timers",
    }
