"""A daemon on a Slurm whose nodes hang on two switches: gangs that the network hurts stay on one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.problems import InputError
from muster.service.engines.factory import EngineOptions
from muster.service.engines.slurm.factory import FACTORY
from tests.service.cli.daemons import open_folder
from tests.slurm.cluster import slurm_for_a_test
from tests.slurm.test_serving import Site

pytestmark = pytest.mark.needs_slurm

LINKS = """
[links.rack]
gb_per_s = "25Gbit/s"
[links.cluster]
gb_per_s = "10Gbit/s"
"""


@pytest.fixture
def site() -> Iterator[Site]:
    """Two nodes on each of two switches, with eight GPUs each."""
    with (
        slurm_for_a_test(nodes=4, switches=("node[1-2]", "node[3-4]"), KillWait=2) as slurm,
        open_folder(0o711) as folder,
    ):
        yield Site(slurm, folder / "home")


def test_a_gang_whose_model_communicates_stays_on_a_switch(site: Site) -> None:
    """Three GPUs are free on one node of the first switch, and on both of the second."""

    def held(job: str) -> dict[str, int]:
        return {here["node"]: len(here["gpu_ids"]) for here in site.wait(job, phase="running")["holds"]}

    with site.serves(scheduler="fifo+joint"):
        for node, gpus in (("node1", 8), ("node2", 5), ("node3", 5), ("node4", 5)):
            said = site.muster("submit", "--gpus", str(gpus), "--cpus", str(gpus), "--", "sleep", "600")
            assert held(said.split()[1]) == {node: gpus}
        for model, nodes in ((["--model", "vgg11"], ["node3", "node4"]), ([], ["node2", "node3"])):
            said = site.muster("submit", "--gpus", "6", "--cpus", "6", *model, "--", "sleep", "600")
            job = said.split()[1]
            assert held(job) == dict.fromkeys(nodes, 3)
            file = site.home.with_name(f"snapshot-{job}.json")
            site.muster("snapshot", "--out", str(file))
            assert "The same decision: " in site.muster("replay", str(file))
            site.muster("cancel", job)
            site.wait(job, state="cancelled")


def test_the_links_of_a_cluster_file_count(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the file that muster cluster writes, with other links and another card of one node."""
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, site.slurm.environment[name])
    file = tmp_path / "site.toml"
    site.muster("cluster", "--from", "slurm", "-o", str(file))
    text = file.read_text().partition("[links.")[0]
    file.write_text(text + LINKS)
    configured = FACTORY.configure(EngineOptions(partition="train", links=file)).cluster
    assert (configured.links.rack.gb_per_s, configured.links.cluster.gb_per_s) == (3.125, 1.25)
    assert configured.racks == ("leaf0", "leaf1")
    file.write_text("nodes")
    with pytest.raises(InputError, match=r"site\.toml:1"):
        FACTORY.configure(EngineOptions(partition="train", links=file))
