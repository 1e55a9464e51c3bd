"""Interruptions by schedulers that look at places: a job is stopped or moved only where that is of use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.simulation.simulate import Run
from tests.building import column, jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, LINKS, gang
from tests.schedulers.test_dally_timers import CLUSTERS, JOBS, NOISY

Gpus = frozenset[tuple[str, int]]


def stretches(result: Run) -> list[tuple[str, float, float, Gpus]]:
    """Job, begin, end and GPUs of each stretch of time in which a job kept its place."""
    held: dict[tuple[str, float, float], set[tuple[str, int]]] = {}
    columns = ("job_id", "from_seconds", "to_seconds", "node", "gpu_ids")
    for name, begins, ends, node, gpus in result.record.allocations.select(columns).rows():
        held.setdefault((name, begins, ends), set()).update((node, gpu) for gpu in gpus)
    return [(*key, frozenset(gpus)) for key, gpus in held.items()]


def spread(gpus: Gpus, cluster: Cluster) -> tuple[int, int]:
    """Racks and machines."""
    rack = {node.name: node.rack for node in cluster.nodes}
    return len({rack[node] for node, _ in gpus}), len({node for node, _ in gpus})


def most_turns(gpus: Gpus, others: list[Gpus]) -> int:
    """How many other jobs take turns on the GPU that most have: a gang has as few turns as there."""
    return max(sum(gpu in theirs for theirs in others) for gpu in gpus)


@given(
    JOBS,
    CLUSTERS,
    st.sampled_from(["dally-plus", "dally-plus-oracle", "dally", "dally-nowait", "themis", "gandiva"]),
)
@settings(max_examples=80, deadline=None)
def test_no_job_is_stopped_or_moved_without_use(
    rows: list[dict[str, Any]], cluster: Cluster, name: str
) -> None:
    lease = {"lease_seconds": "150"} if name in ("dally", "dally-nowait", "themis") else {}
    layers = {"noisy": NOISY}
    result = run(
        jobs_of(*rows), cluster, name, lease, layers=layers, skip_impossible=True, restart_cost_seconds=5.0
    )
    done = dict(result.record.jobs.select("job_id", "finish_seconds").rows())
    found = stretches(result)
    for one, _, ends, gpus in found:
        if ends == done[one]:
            continue
        used = any(other != one and begins == ends and gpus & theirs for other, begins, _, theirs in found)
        again = [theirs for other, begins, _, theirs in found if (other, begins) == (one, ends)]
        # Inside a rack even shares on more machines may be faster than uneven ones on fewer.
        better = any(spread(theirs, cluster)[0] <= spread(gpus, cluster)[0] for theirs in again)
        others = [theirs for other, begins, end, theirs in found if other != one and begins <= ends < end]
        emptier = any(most_turns(theirs, others) < most_turns(gpus, others) for theirs in again)
        assert used or better or emptier, (name, one, ends)


def two_machines() -> Cluster:
    nodes = tuple(Node(f"n{at}", "t", at, 2, f"k{at}", 2, 2, 2, 1.0, 1.0) for at in range(2))
    return Cluster("two", nodes, ("r0", "r1"), LINKS)


@pytest.mark.parametrize(("model", "moves"), [("quiet", 0), ("chatty", 1)])
def test_a_lease_end_moves_only_whom_the_network_slows(model: str, moves: int) -> None:
    # The gang begins on two machines; at its lease's end at 100 s both are free, one would hold it.
    blockers = [gang(1, 50, constraint=f"gpu_type=k{at}") for at in range(2)]
    trace = jobs_of(*blockers, gang(2, 800, model=model))
    given = {"lease_seconds": "100"}
    result = run(
        trace, two_machines(), "fifo+no-wait", given, layers={"chatty": CHATTY}, restart_cost_seconds=5.0
    )
    assert column(result, "moves")[2] == moves
    assert column(result, "preemptions")[2] == 0


def test_a_job_goes_on_after_its_lease_if_its_gpus_are_free() -> None:
    # On two machines it would wait 5 leases for a place on one, which the others hold: it goes on instead.
    blockers = [gang(1, 5000, constraint=f"gpu_type=k{at}") for at in range(2)]
    trace = jobs_of(*blockers, gang(2, 800, submit_seconds=10))
    given = {"lease_seconds": "100", "machine_leases": "3", "rack_leases": "5"}
    result = run(trace, two_machines(), "fifo+manual-timers", given, restart_cost_seconds=5.0)
    assert column(result, "start_seconds")[2] == 510
    assert column(result, "preemptions")[2] == 0
    assert column(result, "finish_seconds")[2] == 910
