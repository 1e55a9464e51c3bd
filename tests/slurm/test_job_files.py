"""What the Slurm engine writes for a start, without a Slurm."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.engines import Launch
from muster.service.engines.parts import meeting_folder
from muster.service.engines.slurm.job_files import write_start


@pytest.mark.parametrize("nodes", [1, 2])
def test_only_parts_on_several_nodes_get_a_place_to_meet(tmp_path: Path, nodes: int) -> None:
    folder = tmp_path / "jobs" / "7"
    launch = Launch(
        job=7,
        epoch=1,
        run_dir=folder / "run",
        output_dir=folder / "output",
        command=("true",),
        directory=tmp_path,
        environment={},
        allocations=tuple(NodeAllocation(f"node{at}", (0,), 1.0, 1.0) for at in range(nodes)),
        ranks=(1,) * nodes,
        user=None,
        whose="this one",
    )
    write_start(launch, {}, passes_on=())
    meeting = meeting_folder(launch)
    assert meeting.exists() == (nodes > 1)
    if nodes > 1:
        assert stat.S_IMODE(meeting.stat().st_mode) == 0o700
