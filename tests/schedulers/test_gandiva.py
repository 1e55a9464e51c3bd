"""Gandiva's mechanisms one by one, each against times worked out by hand; and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from muster.cluster import Cluster, Node
from muster.cluster.ledger_arrays import PACKED
from muster.problems import InputError
from muster.schedulers.registry import build
from muster.simulation import Run
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, LINKS, small_cluster


def two_nodes(gpus: int) -> Cluster:
    """Of the GPU types a and b, by which a job states where it may go."""
    return Cluster("two", tuple(Node(kind, kind, 0, gpus, kind, gpus, 6, 100, 1, 1) for kind in "ab"), ("r",))


def holdings(result: Run) -> list[tuple[str, str, list[int], float, float]]:
    """Job, node, GPUs, from, to: stretches on the same GPUs joined, whichever other jobs were there."""
    found: list[tuple[str, str, list[int], float, float]] = []
    for row in result.record.allocations.sort("job_id", "node", "from_seconds").iter_rows(named=True):
        here = row["job_id"], row["node"], row["gpu_ids"]
        begins = row["from_seconds"]
        if found and found[-1][:3] == here and found[-1][4] == begins:
            begins = found.pop()[3]
        found.append((*here, begins, row["to_seconds"]))
    return found


# Time slicing


def test_without_a_free_gpu_jobs_take_turns_and_none_waits() -> None:
    # One GPU: 50 s alone, both at half speed until the first is done at 150, then the second alone.
    result = run(jobs_of(job(0, 100), job(50, 100)), cluster_of(1), "gandiva")
    assert finishes(result) == pytest.approx([150, 200])
    assert column(result, "wait_seconds") == [0, 0]
    assert column(result, "preemptions") == [0, 0]


def test_turns_are_equal_among_many() -> None:
    result = run(jobs_of(*(job(0, 60) for _ in range(5))), cluster_of(1), "gandiva")
    assert finishes(result) == pytest.approx([300] * 5)


def test_most_turns_bounds_how_many_share() -> None:
    trace = jobs_of(*(job(0, 100) for _ in range(3)))
    result = run(trace, cluster_of(1), "gandiva", {"most_turns": "2"})
    # Two share until 200; the third has waited for one of them.
    assert finishes(result) == pytest.approx([200, 200, 300])
    assert column(result, "wait_seconds") == pytest.approx([0, 0, 200])


def test_in_its_turn_a_job_has_the_cpus_of_all_who_share() -> None:
    """resnet18 is held up by its input stage; with the node's CPUs in its turn it is no slower than half."""
    trace = jobs_of(*(job(0, 1000, model="resnet18") for _ in range(2)))
    alone = run(jobs_of(job(0, 1000, model="resnet18")), cluster_of(1), "gandiva")
    (seconds,) = finishes(alone)
    assert seconds is not None
    shared = run(trace, cluster_of(1), "gandiva", {"trial_seconds": "5000"})
    assert column(shared, "input_stall_seconds")[0] > 0
    assert finishes(shared) == pytest.approx([2 * seconds] * 2, rel=1e-4)


def test_a_job_that_may_not_be_stopped_shares_with_none() -> None:
    trace = jobs_of(job(0, 100, preemptible=False), job(0, 100), job(10, 100, preemptible=False))
    result = run(trace, cluster_of(1), "gandiva")
    assert column(result, "start_seconds") == pytest.approx([0, 100, 200])
    assert finishes(result) == pytest.approx([100, 200, 300])


def test_a_start_is_left_alone_for_its_least_run_time() -> None:
    trace = jobs_of(job(0, 100, min_runtime_seconds=40.0), job(10, 100))
    result = run(trace, cluster_of(1), "gandiva")
    assert column(result, "start_seconds") == pytest.approx([0, 40], abs=1e-4)
    assert finishes(result) == pytest.approx([160, 200], abs=1e-4)


def test_no_turns_while_released_gpus_are_unavailable() -> None:
    trace = jobs_of(job(0, 100), job(0, 100))
    result = run(trace, cluster_of(1), "gandiva", release_seconds_per_gpu=5.0)
    assert column(result, "start_seconds") == pytest.approx([0, 105])


# Affinity


def test_a_job_prefers_nodes_of_its_size_then_empty_ones() -> None:
    trace = jobs_of(
        job(0, 100, gpus=2), job(1, 100, gpus=1), job(2, 100, gpus=2), job(3, 100), job(4, 100, gpus=2)
    )
    found = holdings(run(trace, cluster_of(4, 4, 4), "gandiva"))
    nodes = [part[1] for part in found if part[3] == int(part[0])]
    assert nodes == ["node0", "node1", "node0", "node1", "node2"]


def test_sharing_prefers_jobs_of_the_same_size() -> None:
    # node0 is full of a gang of 4, node1 of four single jobs: another single one shares with one of those.
    trace = jobs_of(job(0, 100, gpus=4), *(job(0, 100) for _ in range(4)), job(10, 10))
    result = run(trace, cluster_of(4, 4), "gandiva")
    assert holdings(result)[-1][1] == "node1"
    assert finishes(result)[0] == 100


def test_a_gang_without_a_node_is_spread_inside_a_rack() -> None:
    # Racks {0, 2} and {1, 3}: 2 + 1 GPUs are free in the first, 1 + 1 in the second.
    held = [job(0, 1000, constraint="", gpus=3) for _ in range(4)]
    result = run(jobs_of(*held, job(1, 10, gpus=2)), cluster_of(5, 4, 4, 4, racks=2), "gandiva")
    assert {part[1] for part in holdings(result) if part[0] == "4"} <= {"node0", "node2"}


# Migration


def test_a_gpu_that_becomes_free_goes_to_those_who_share() -> None:
    # Jobs 0 and 2 share GPU 0 at half speed until job 1 leaves GPU 1 at 100: 50 s are left of each.
    result = run(
        jobs_of(*(job(0, 100) for _ in range(3))), cluster_of(2), "gandiva", restart_cost_seconds=7.0
    )
    assert sorted(zip(finishes(result), column(result, "moves"), strict=True)) == [
        (100, 0),
        (150, 0),
        (157, 1),
    ]


def test_a_spread_gang_moves_together_when_there_is_room() -> None:
    # The gang takes what is left of both nodes; at 50 node0 is free and takes all of it.
    trace = jobs_of(
        job(0, 50, constraint="gpu_type=a"),
        job(0, 1000, constraint="gpu_type=b"),
        job(1, 200, gpus=2, model="chatty"),
    )
    cluster = replace(two_nodes(2), links=LINKS)
    layers = {"chatty": CHATTY}
    result = run(trace, cluster, "gandiva", layers=layers, network="physical", restart_cost_seconds=3.0)
    gang = [part[1:] for part in holdings(result) if part[0] == "2"]
    assert gang[0] == ("a", [1], 1.0, 50.0)
    assert gang[1][:3] == ("a", [0, 1], 50.0)
    assert column(result, "moves") == [0, 0, 1]
    # Without a network model nothing is gained by it, and 3 s would be lost.
    assert column(run(trace, cluster, "gandiva", restart_cost_seconds=3.0), "moves") == [0, 0, 0]


def test_nodes_that_are_mostly_free_are_emptied() -> None:
    # One of four GPUs is held on each node from 20 on: the one on node b may go to a, and does.
    short = [job(0, 20, constraint="gpu_type=b", gpus=3), job(0, 20, constraint="gpu_type=a", gpus=3)]
    trace = jobs_of(*short, job(1, 100), job(2, 100))
    moved = run(trace, two_nodes(4), "gandiva")
    assert {part[1] for part in holdings(moved) if part[0] in "23" and part[4] > 20} in ({"a"}, {"b"})
    kept = run(trace, two_nodes(4), "gandiva", {"defragment_from": "2"})
    assert column(kept, "moves") == [0] * 4


def test_stacks_are_levelled_within_a_size() -> None:
    # GPU 0 has jobs 0, 2; GPU 1 has 1, 3, of which 1 and 3 end together at 20: no job is left to share with then.
    trace = jobs_of(job(0, 90), job(0, 10), job(0, 90), job(0, 10))
    result = run(trace, cluster_of(2), "gandiva")
    # 0 and 2 have 80 s left at 20 and a GPU each.
    assert finishes(result) == pytest.approx([100, 20, 100, 20])


# Growing and shrinking


def test_an_elastic_job_grows_on_its_node_and_gives_back() -> None:
    trace = jobs_of(job(0, 400, gpus=1, max_gpus=4), job(50, 30, gpus=3))
    result = run(trace, cluster_of(4), "gandiva")
    # 200 of 400 s done on 4 GPUs by 50, 30 more by 80, the rest on 4.
    assert finishes(result) == pytest.approx([80 + 170 / 4, 80])
    assert [len(part[2]) for part in holdings(result)] == [4, 1, 4, 3]


def test_no_job_grows_while_others_share() -> None:
    trace = jobs_of(job(0, 100, max_gpus=2), job(0, 100, gpus=2), job(0, 100, gpus=2))
    result = run(trace, cluster_of(1, 2), "gandiva")
    held = result.record.allocations.filter(result.record.allocations["job_id"] == "0")
    assert held["gpus"].to_list() == [1.0]


# Packing


def test_packing_pays_where_one_computes_while_the_other_talks() -> None:
    """Two gangs over two machines, half of whose time is communication: side by side neither is slowed."""
    trace = jobs_of(
        *({"submit_seconds": 0, "gpus": 2, "gpu_work_seconds": 2000, "model": "chatty"} for _ in "ab")
    )
    cluster = small_cluster(1, 2)
    alone = run(
        trace.__class__(trace.jobs[:1], trace.source, ()), cluster, "gandiva", layers={"chatty": CHATTY}
    )
    assert finishes(alone) == pytest.approx([2000])  # 1000 s of compute, as many of communication
    result = run(trace, cluster, "gandiva", {"trial_seconds": "100"}, layers={"chatty": CHATTY})
    # 200 s in turns do 100 s of each; then both at full speed, and they stay so when the trial ends at 300.
    assert finishes(result) == pytest.approx([200 + 1900] * 2)


def test_packing_that_does_not_pay_is_undone_and_not_tried_again() -> None:
    trace = jobs_of(*(job(0, 1000, model="busy") for _ in "abcd"))
    result = run(trace, cluster_of(2), "gandiva", {"trial_seconds": "100"})
    assert finishes(result) == pytest.approx([2000] * 4)
    groups = result.record.allocations.filter(result.record.allocations["slice_group"] >= PACKED)
    # Both pairs are tried at once from 200 to 300, and never again.
    assert {(row["from_seconds"], row["to_seconds"]) for row in groups.iter_rows(named=True)} == {(200, 300)}


def test_what_was_learned_of_two_models_holds_for_the_next_pair() -> None:
    trace = jobs_of(*(job(0, 400, model="busy") for _ in "ab"), *(job(900, 400, model="busy") for _ in "ab"))
    result = run(trace, cluster_of(1), "gandiva", {"trial_seconds": "100"})
    packed = result.record.allocations.filter(result.record.allocations["slice_group"] >= PACKED)
    assert set(packed["job_id"]) == {"0", "1"}


def test_only_two_who_have_their_gpus_for_themselves_are_packed() -> None:
    result = run(
        jobs_of(*(job(0, 1000) for _ in range(3))), cluster_of(1), "gandiva", {"trial_seconds": "50"}
    )
    groups = result.record.allocations.filter(result.record.allocations["slice_group"] >= PACKED)
    assert not len(groups)


def test_trials_are_plain_values() -> None:
    """The state goes through JSON and back, trials included, and means the same."""
    seen: list[Any] = []

    class Watched:
        def __init__(self) -> None:
            self.inner = build("gandiva", {"trial_seconds": "100"})
            self.name, self.describe, self.initial = "watched", self.inner.describe, self.inner.initial

        def decide(self, snapshot: Any, state: Any) -> Any:
            seen.append(json.loads(json.dumps(state)))
            return self.inner.decide(snapshot, seen[-1])

    trace = jobs_of(job(0, 1000), job(0, 1000))
    through = run(trace, cluster_of(1), Watched())
    straight = run(trace, cluster_of(1), "gandiva", {"trial_seconds": "100"})
    assert through.record.allocations.equals(straight.record.allocations)
    assert any(state["trials"] for state in seen)


@pytest.mark.parametrize(
    "settings",
    [{"most_turns": "0"}, {"trial_seconds": "0"}, {"least_gain": "inf"}, {"defragment_from": "-1"}],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        build("gandiva", settings)


def test_a_bound_on_waiting_lets_a_job_share_with_any_number() -> None:
    # Two take turns on the one GPU and no third may join them, until it has waited for 300 s.
    trace = jobs_of(job(0, 5000), job(0, 5000), job(10, 100))
    settings = {"most_turns": "2"}
    assert column(run(trace, cluster_of(1), "gandiva", settings), "start_seconds")[2] > 5000
    bounded = run(trace, cluster_of(1), "gandiva", {**settings, "promote_after_seconds": "300"})
    assert column(bounded, "start_seconds")[2] == pytest.approx(310, abs=1e-3)
