"""Types of GPU of which nothing is known that makes them differ: joint decides as if there were one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger_arrays import GPU, MICRO, NODE, NodeArray
from muster.cluster.structured import zero_records
from muster.schedulers.joint.modelled_speeds import ANY_TYPE
from muster.schedulers.joint.room_by_type import room_by_type
from muster.schedulers.joint.sizes import chooses_type
from muster.workload.models import synergy_models
from tests.building import cluster_of, finishes, job, jobs_of, run
from tests.schedulers.synergy_cases import asked_at_first, on_types

_NODES = cluster_of(8, 8, 4, 4)
_TYPES = ("a100", "v100", "a100", "v100")
LABELLED = replace(
    _NODES,
    nodes=tuple(replace(node, labels=(name,)) for node, name in zip(_NODES.nodes, _TYPES, strict=True)),
)
TWO_TYPES = replace(
    _NODES, nodes=tuple(replace(node, gpu_type=name) for node, name in zip(_NODES.nodes, _TYPES, strict=True))
)
JOBS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 20.0, 300.0]),
        st.sampled_from([100, 2_000, 30_000]),
        st.sampled_from([1, 1, 2, 4, 8, 12]),
        st.sampled_from([0.5, 1.0, 3.0, 5.0]),
        st.sampled_from([False, False, True]),
        st.sampled_from([1, 1, 2, 4]),
    ),
    min_size=1,
    max_size=25,
)


@given(JOBS, st.sampled_from(["gittins", "las", "fifo"]))
@settings(deadline=None, max_examples=40)
def test_jobs_of_no_model_run_as_on_one_type(
    drawn: list[tuple[float, int, int, float, bool, int]], order: str
) -> None:
    """Some jobs ask for V100s; where there is one type, those nodes have a label of that name.

    Some may have several times the GPUs that they ask for.
    """
    submit = np.cumsum([gap for gap, *_ in drawn]).tolist()
    found = []
    for cluster, constraint in ((LABELLED, "label=v100"), (TWO_TYPES, "gpu_type=v100")):
        trace = jobs_of(
            *(
                job(at, seconds, gpus, min_gpus=gpus, max_gpus=times * gpus, model="", cpus=cpus * gpus)
                | {"constraint": constraint if asks else ""}
                for at, (_, seconds, gpus, cpus, asks, times) in zip(submit, drawn, strict=True)
            )
        )
        found.append(run(trace, cluster, f"{order}+joint", restart_cost_seconds=60.0, skip_impossible=True))
    one, two = (result.record.allocations.drop("gpu_ids") for result in found)
    assert one.equals(two)


def test_an_elastic_job_of_no_model_has_gpus_of_all_types() -> None:
    """It asks for four GPUs, and takes a sixth of the time on the 24 of two types."""
    trace = jobs_of(job(0, 1_200, gpus=4, min_gpus=1, max_gpus=24))
    assert finishes(run(trace, TWO_TYPES, "gittins+joint")) == [200.0]


def by_counting(nodes: Any, gpu_type: int, need: Any, allowed: Any) -> int:
    """The GPUs of a job on each node by itself, added up."""
    count = 0
    for node, may in zip(nodes, allowed, strict=True):
        if may and gpu_type in (ANY_TYPE, node["gpu_type"]):
            usable = node["capacity"] - node["unavailable"]
            rooms = [int(room // each) for room, each in zip(usable, need, strict=True) if each > 0]
            count += min([int(usable[GPU] // MICRO), *rooms])
    return count


def test_gpus_beside_which_requests_fit_are_counted_by_type() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        nodes: NodeArray = zero_records(int(rng.integers(1, 7)), NODE)
        nodes["gpu_type"] = rng.integers(0, 2, len(nodes))
        nodes["capacity"] = rng.integers(0, 3, nodes["capacity"].shape) * 4 * MICRO
        nodes["unavailable"] = nodes["capacity"] // 4 * rng.integers(0, 2, (len(nodes), 1))
        allowed = rng.random((2, len(nodes))) < 0.7
        needs = rng.integers(0, 3, (5, nodes["capacity"].shape[1])) * MICRO
        needs[:, GPU] = 0
        constraint, types = rng.integers(0, 2, 5), np.array([ANY_TYPE, 0, 1])
        found = room_by_type(nodes, types, needs, allowed, constraint)
        assert found.tolist() == [
            [
                by_counting(nodes, each, need, allowed[which])
                for need, which in zip(needs, constraint, strict=True)
            ]
            for each in types.tolist()
        ]


def test_types_count_for_jobs_of_which_something_is_known() -> None:
    """What a job needs of CPUs, of which nodes of each type have their own, or its speed on a type."""
    models = {
        "resnet18": synergy_models()["resnet18"],
        "gnmt": on_types(synergy_models()["gnmt"], {"a100": 2.0, "v100": 1.0}),
    }
    rows = [
        job(0, 100, model="resnet18"),
        job(0, 100, model="gnmt"),
        job(0, 100, model="unknown"),
        job(0, 100, model="resnet18", constraint="gpu_type=v100"),
    ]
    assert asked_at_first(chooses_type, rows, TWO_TYPES, models) == [True, True, False, False]
