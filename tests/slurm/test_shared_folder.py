"""A folder that the nodes of a real Slurm do not share is refused; the message says which node, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.cli.daemons import Person, open_folder
from tests.slurm.cluster import SlurmCluster, mounted, wait_for

pytestmark = pytest.mark.needs_slurm


@pytest.fixture
def jobs() -> Iterator[Path]:
    with open_folder(0o711) as folder:
        (folder / "disk/jobs").mkdir(parents=True)
        yield folder / "disk/jobs"


def flags(jobs: Path) -> tuple[str, ...]:
    return ("--engine", "slurm", "--partition", "train", "--jobs", str(jobs))


@pytest.fixture
def person(slurm: SlurmCluster) -> Person:
    kept = {name: value for name, value in slurm.environment.items() if not name.startswith("MUSTER_")}
    return Person(environment=kept)


@pytest.mark.parametrize(
    ("path", "mount", "said"),
    [
        ("disk", "mount -t tmpfs none {0}", "has no such folder"),
        ("disk/jobs", "mount -t tmpfs none {0}", "has another folder of this name"),
        (
            "disk/jobs",
            "mount --bind {0} {0}; mount -o remount,bind,ro {0}",
            "cannot use it: Read-only file system",
        ),
    ],
    ids=["hidden", "another", "read-only"],
)
def test_a_folder_that_a_node_does_not_share_is_refused(
    slurm: SlurmCluster, person: Person, jobs: Path, path: str, mount: str, said: str
) -> None:
    there = jobs.parent.parent / path
    with mounted(slurm.processes["node2"].pid, mount.format(there), there):
        refused = person.is_refused(jobs.parent.parent / "home", *flags(jobs))
    assert f"--jobs: found '{jobs}'; node node2 {said}" in refused
    assert "Traceback" not in refused
    assert not [path for path in jobs.iterdir() if path.name.startswith(".")]


def test_a_full_cluster_is_served_with_a_note(slurm: SlurmCluster, person: Person, jobs: Path) -> None:
    """A daemon that comes back to nodes that its jobs fill must not stay away."""
    slurm.wait_idle()
    number = slurm.run(
        "sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 600"
    ).strip()
    wait_for(lambda: "RUNNING" in slurm.run("squeue", "-h", "-o", "%T"), lambda: slurm.run("squeue"))
    try:
        with person.serves(jobs.parent.parent / "home", *flags(jobs)) as reply:
            pass
        assert any(f'"{jobs} was not tried from a node: none has a free CPU"' in line for line in reply)
    finally:
        slurm.run("scancel", number)
        slurm.wait_idle()
