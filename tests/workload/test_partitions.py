"""A job of a Slurm partition runs on the nodes of that partition, where the cluster states them."""

from __future__ import annotations

import pytest

from muster.cluster import Cluster
from muster.cluster.shipped import parse_cluster
from muster.cluster.slurm_nodes import read_slurm_site
from muster.problems import InputError
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.jobs import nodes_allowed
from muster.workload.trace import trace_of

SITE = """
NodeName=a CPUTot=8 RealMemory=1000 Gres=gpu:h100:4 State=IDLE Partitions=train
NodeName=b CPUTot=8 RealMemory=1000 Gres=gpu:h100:4 State=IDLE Partitions=train,debug
NodeName=c CPUTot=8 RealMemory=1000 Gres=gpu:a100:4 State=IDLE Partitions=debug
"""


def site() -> Cluster:
    return read_slurm_site(SITE, "site", "site").cluster


def nodes_of_jobs(
    cluster: Cluster, scheduler: str, partitions: list[str], **more: list[str]
) -> list[set[str]]:
    """The nodes that each of some whole-node jobs, which come together, runs on."""
    count = len(partitions)
    columns = {
        "job_id": [str(at) for at in range(count)],
        "submit_seconds": [0.0] * count,
        "gpus": [4] * count,
        "duration_seconds": [10.0] * count,
        "time_limit_seconds": [20.0] * count,
        "partition": partitions,
        **more,
    }
    run = simulate(trace_of(columns, "by hand"), cluster, build(scheduler), Options(restart_cost_seconds=0.0))
    held = run.record.allocations
    return [set(held.filter(held["job_id"] == str(at))["node"]) for at in range(count)]


@pytest.mark.parametrize("scheduler", ["fifo", "fifo+easy", "slurm", "las+tune-plus"])
def test_jobs_run_on_the_nodes_of_their_partition(scheduler: str) -> None:
    found = nodes_of_jobs(site(), scheduler, ["debug", "train", "debug", "train", "train"])
    for nodes, allowed in zip(found, ["bc", "ab", "bc", "ab", "ab"], strict=True):
        assert nodes
        assert nodes <= set(allowed)


def test_a_job_of_several_partitions_may_use_them_all() -> None:
    assert nodes_of_jobs(site(), "fifo", ["train,debug"] * 3) == [{"a"}, {"b"}, {"c"}]


def test_a_job_without_partition_runs_anywhere() -> None:
    assert nodes_of_jobs(site(), "fifo", [""] * 3) == [{"a"}, {"b"}, {"c"}]


def test_a_partition_and_a_constraint_both_hold() -> None:
    assert nodes_of_jobs(site(), "fifo", ["debug"], constraint=["gpu_type=h100"]) == [{"b"}]


def test_partitions_mean_nothing_where_the_cluster_has_none() -> None:
    assert nodes_of_jobs(parse_cluster("1x4gpu"), "fifo", ["train", "old"]) == [{"node-0"}] * 2


@pytest.mark.parametrize(
    ("partition", "constraint", "says"),
    [("old", "", "partitions: debug, train"), ("train", "gpu_type=a100", "that meets gpu_type=a100")],
)
def test_a_partition_without_nodes_is_refused(partition: str, constraint: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        nodes_of_jobs(site(), "fifo", [partition] * 2, constraint=[constraint] * 2)
    (problem,) = caught.value.problems
    assert problem.column == "partition"
    assert "job 0, and 1 more can never run; leave such jobs out with --skip-impossible" in problem.what


@pytest.mark.parametrize(
    "scheduler", ["fifo", "fifo+easy", "slurm", "las+tune-plus", "las+requested", "las+joint"]
)
def test_jobs_that_no_node_may_run_are_left_out(scheduler: str) -> None:
    jobs = {
        "job_id": list("abcde"),
        "submit_seconds": [0.0] * 5,
        "gpus": [4, 4, 4, 4, 4],
        "cpus": [2.0] * 5,
        "duration_seconds": [10.0] * 5,
        "time_limit_seconds": [20.0] * 5,
        "partition": ["debug", "old", "train", "train", ""],
        "constraint": ["", "", "gpu_type=a100", "gpu_type=v100", "gpu_type=v100"],
    }
    options = Options(restart_cost_seconds=0.0, skip_impossible=True)
    run = simulate(trace_of(jobs, "by hand"), site(), build(scheduler), options)
    outcomes = dict(run.record.jobs.select("job_id", "outcome").iter_rows())
    assert outcomes == {"a": "completed", **dict.fromkeys("bcde", "refused")}


@pytest.mark.parametrize(
    ("constraint", "allowed"),
    [("gpu_type=a100|h100", "abc"), ("label=partition:debug", "bc"), ("label=partition:train|nowhere", "ab")],
)
def test_a_bar_in_a_constraint_means_any_of_them(constraint: str, allowed: str) -> None:
    cluster = site()
    meets = nodes_allowed(constraint, cluster, "by hand")
    assert [node.name for node, one in zip(cluster.nodes, meets, strict=True) if one] == list(allowed)
