"""What the engine makes of nodes, from the lines of scontrol."""

from __future__ import annotations

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.slurm_nodes import read_slurm_site
from muster.service.engines.slurm.nodes import engine_nodes

_LINE = (
    "NodeName=n1 CPUAlloc={cpus} CPUTot=24 Gres={gres} "
    "GresUsed={used} RealMemory=500000 AllocMem={mib} State={state}"
)


def others(
    state: str, used: str, *, gres: str = "gpu:v100:8", cpus: int = 0, mib: int = 0
) -> tuple[int, float]:
    """GPUs and CPUs that a node has for others, while one start of ours holds 2 GPUs and 6 CPUs there."""
    line = _LINE.format(state=state, used=used, gres=gres, cpus=cpus, mib=mib)
    cluster = read_slurm_site(line, "nodes", "train").cluster
    assert cluster.nodes[0].gpus == 8
    ours = NodeAllocation("n1", (0, 1), 6.0, 10.0)
    (found,) = engine_nodes(line, cluster, [[ours]])
    return (0, 0.0) if found.others is None else (len(found.others.gpu_ids), found.others.cpus)


@pytest.mark.parametrize(
    ("gres", "used"),
    [
        ("gpu:v100:8(S:0-1)", "gpu:v100:5(IDX:0-4)"),
        ("gpu:8", "gpu:5(IDX:0-4)"),
        ("gpu:(null):8(S:0)", "gpu:(null):5(IDX:0-4)"),
        ("gpu:1080ti:8", "gpu:1080ti:5(IDX:0-4),shard:0"),
    ],
)
def test_gpus_of_others_are_counted_in_each_form(gres: str, used: str) -> None:
    assert others("MIXED", used, gres=gres, cpus=10, mib=20_000) == (3, 4.0)


def test_what_is_ours_alone_leaves_others_nothing() -> None:
    assert others("MIXED", "gpu:v100:2(IDX:0-1)", cpus=6) == (0, 0.0)


@pytest.mark.parametrize(
    "state", ["IDLE+MAINTENANCE+RESERVED", "MIXED+MAINT", "MIXED+RESERVED", "MIXED+DRAIN"]
)
def test_nothing_more_starts_on_a_closed_node(state: str) -> None:
    assert others(state, "gpu:v100:2(IDX:0-1)", cpus=6) == (6, 18.0)


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN", "MIXED+DRAIN+NOT_RESPONDING"])
def test_a_node_is_away_once_nothing_of_ours_is_there(state: str) -> None:
    line = _LINE.format(state=state, used="gpu:v100:0", gres="gpu:v100:8", cpus=0, mib=0)
    cluster = read_slurm_site(line.replace(state, "IDLE"), "nodes", "train").cluster
    assert engine_nodes(line, cluster, []) == []
