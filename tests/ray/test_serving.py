"""A whole daemon on a real Ray: jobs are submitted, stopped, resumed and end; faults of Ray are named."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.service.engines.factory import EngineOptions
from muster.service.engines.registry import configured_engine
from tests.ray.cluster import ADDRESS, RayCluster, wait_for
from tests.service.cli.daemons import Person, open_folder
from tests.slurm.cluster import mounted

pytestmark = pytest.mark.needs_ray

JOB = Path(__file__).parent.parent / "slurm" / "counting_job.py"


class RaySite:
    """A daemon of root on a Ray cluster, and what its users type."""

    def __init__(self, cluster: RayCluster, folder: Path) -> None:
        self.cluster, self.home, self.shared = cluster, folder / "home", folder / "shared"
        self.person = Person()

    @contextmanager
    def serves(self, *options: str) -> Iterator[list[str]]:
        flags = ("--engine", "ray", "--address", ADDRESS, "--jobs", str(self.shared), *options)
        with self.person.serves(self.home, *flags) as reply:
            yield reply

    def muster(self, *words: str) -> str:
        done = self.person.types(self.home, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, *options: str) -> str:
        said = self.muster("submit", *options, "--cpus", "4", "--", sys.executable, str(JOB))
        return said.split()[1]

    def status(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.muster("status", job, "--json"))
        return found

    def wait(self, job: str, **fields: object) -> dict[str, Any]:
        """Wait until the status of a job has these values."""
        wait_for(
            lambda: all(self.status(job)[name] == value for name, value in fields.items()),
            lambda: f"{fields} did not come: {self.status(job)}",
        )
        return self.status(job)

    def sees_gpus(self, node: str, ids: str) -> bool:
        """Whether the ranks on a node see these GPUs, by the kernel's account."""
        found = set()
        for pid in self.cluster.started_pids(node):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            found |= {one.decode() for one in variables if one.startswith(b"CUDA_VISIBLE_DEVICES=")}
        return found == {f"CUDA_VISIBLE_DEVICES={ids}"}


@pytest.fixture
def site(cluster: RayCluster) -> Iterator[RaySite]:
    with open_folder(0o711) as folder:
        yield RaySite(cluster, folder)
        cluster.end_agents()


@pytest.fixture(scope="module")
def learnt_alone() -> str:
    """What the job prints without a scheduler."""
    done = subprocess.run([sys.executable, JOB], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_gang_on_two_nodes_trains_and_resumes(site: RaySite) -> None:
    pytest.importorskip("torch")
    with site.serves("--scheduler", "fifo"):
        job = site.submit("--gpus", "12")
        found = site.wait(job, phase="running")
        nodes = [here["node"] for here in found["holds"]]
        assert len(nodes) == 2
        for here in found["holds"]:
            ids = ",".join(map(str, here["gpu_ids"]))
            wait_for(partial(site.sees_gpus, here["node"], ids), partial(str, ids))
        wait_for(lambda: site.status(job)["steps_done"] > 0, lambda: f"no step: {site.status(job)}")
        site.muster("hold", job)
        assert site.wait(job, state="held")["steps_done"] > 0
        site.muster("release", job)
        assert site.wait(job, state="completed")["starts"] == 2
        learnt = {site.muster("logs", job, "--rank", rank).splitlines()[-1] for rank in ("0", "1")}
        assert len(learnt) == 1
        assert learnt.pop().startswith("learnt")


def test_a_killed_daemon_finds_its_jobs_again(site: RaySite, learnt_alone: str) -> None:
    with site.serves("--scheduler", "fifo"):
        job = site.submit("--gpus", "2")
        wait_for(lambda: site.status(job)["steps_done"] > 0, lambda: f"no step: {site.status(job)}")
        before = site.status(job)
    with site.serves("--scheduler", "fifo"):
        found = site.wait(job, phase="running")
        assert (found["starts"], found["holds"]) == (before["starts"], before["holds"])
        site.muster("hold", job)
        site.wait(job, state="held")
        site.muster("release", job)
        site.wait(job, state="completed")
        assert site.muster("logs", job).splitlines()[-1] == learnt_alone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--address: allowed: host and port of the head of a Ray cluster"),
        (["--address", "node1"], "--address: found 'node1'; allowed: host and port"),
        (["--address", "127.0.0.1:99999"], "allowed: host and port of the head"),
        (["--address", "127.0.0.1:1"], "no head of a Ray cluster listens at 127.0.0.1:1: Connection refused"),
        (["--address", "no-such-host:6379"], "no head of a Ray cluster listens at no-such-host:6379"),
    ],
)
def test_a_wrong_address_is_refused(site: RaySite, options: list[str], message: str) -> None:
    assert message in site.person.is_refused(site.home, "--engine", "ray", *options)
    assert not site.home.exists()


def test_a_folder_that_a_node_does_not_share_is_refused(site: RaySite) -> None:
    site.shared.mkdir(mode=0o711)
    with mounted(site.cluster.started["node2"].pid, f"mount -t tmpfs none {site.shared}", site.shared):
        flags = ("--engine", "ray", "--address", ADDRESS, "--jobs", str(site.shared))
        said = site.person.is_refused(site.home, *flags)
    assert f"--jobs: found '{site.shared}'; node node2 has another folder of this name" in said


def test_a_ray_cluster_becomes_a_cluster_file(site: RaySite) -> None:
    path = site.home.parent / "site.toml"
    said = site.muster("cluster", "--from", "ray", "--address", ADDRESS, "-o", str(path))
    assert said == f"3 nodes with 24 GPUs in {path}\n"
    found = parse_cluster(str(path))
    assert [(node.name, node.gpus, node.cpus, node.memory_gb) for node in found.nodes] == [
        (name, 8, 4.0, 500.0) for name in site.cluster.nodes
    ]


def test_a_node_that_cannot_be_used_is_left_out(site: RaySite) -> None:
    """Two have one name, another one has no CPUs: the others serve, and a note says why these do not."""
    twin = RayCluster(site.cluster.folder / "twin", site.cluster.nodes)
    twin.folder.mkdir()
    twin.start("node2")
    twin.start("bare", "--num-cpus=0")
    left_out = [
        "node bare is left out: it has GPUs and no CPUs or no memory. Hint: ray start --num-cpus N",
        "node node2 is left out: several nodes of Ray have this name. Hint: ray start --node-name NAME",
    ]
    try:
        with site.serves("--scheduler", "fifo") as said:
            nodes = json.loads(site.muster("nodes", "--json"))["nodes"]
            assert [node["name"] for node in nodes] == ["node1", "node3"]
            assert site.wait(site.submit("--gpus", "1"), state="completed")["starts"] == 1
        assert [words for words in left_out if not any(words in line for line in said)] == [], said
        path = site.home.parent / "site.toml"
        done = site.person.types(site.home, "cluster", "--from", "ray", "--address", ADDRESS, "-o", str(path))
        assert done.stdout == f"2 nodes with 16 GPUs in {path}\n"
        assert "ray: node node2 is left out: several nodes of Ray have this name" in done.stderr
    finally:
        twin.kill("node2")
        twin.kill("bare")


@pytest.mark.parametrize(
    ("banner", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "says b'SSH-2.0-OpenSSH_9.2\\r\\n'"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "says b'HTTP/1.1 400 Bad Request"),
        (b"-ERR", "says b'-ERR'"),
        (b"", "hangs up"),
    ],
)
def test_what_is_no_head_of_ray_is_refused(banner: bytes, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def answer() -> None:
            with listener.accept()[0] as other:
                other.recv(1000)
                other.sendall(banner)

        server = threading.Thread(target=answer)
        server.start()
        with pytest.raises(InputError) as refused:
            configured_engine("ray", EngineOptions(address=address))
        server.join()
    expected = f"--address: found '{address}'; what listens at {address} {words}"
    assert str(refused.value).startswith(expected)
    assert str(refused.value).endswith("; allowed: the head of a Ray cluster. Hint: ray status")


def test_a_server_that_says_nothing_is_refused(site: RaySite) -> None:
    """It is said meanwhile what is being waited for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        said = site.person.is_refused(site.home, "--engine", "ray", "--address", address)
    assert f"Waiting for engine ray at {address} to answer.\n" in said
    assert (
        f"what listens at {address} has not answered within 5 s; allowed: the head of a Ray cluster" in said
    )


def test_a_node_of_another_muster_is_refused(site: RaySite) -> None:
    with site.serves(), open_folder(0o711) as folder:
        other = RaySite(site.cluster, folder)
        said = other.person.is_refused(other.home, "--engine", "ray", "--address", ADDRESS)
        assert "another Muster uses this node" in said
