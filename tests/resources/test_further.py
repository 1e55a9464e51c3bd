"""A resource that another package adds is scheduled like the ones that come with Muster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from muster.service.client import Client
from muster.service.home import socket_path
from tests.resources.power_runs import CLUSTER, WATTS
from tests.service.cli.daemons import Person, open_folder
from tests.service.engines.bench import until

ROOT = Path(__file__).parent.parent.parent
SCHEDULERS = (
    "gittins+tune-plus",
    "fifo+proportional+pack",
    "fifo+requested+pack",
    "drf+tune",
    "fifo+greedy",
    "fifo+opt",
)


def with_package(folder: Path, source: str, points: str) -> dict[str, str]:
    """The environment of a process in which a package of this source is installed."""
    info = folder / "power-1.0.dist-info"
    info.mkdir()
    (folder / "power.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: power\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[muster.resources]\n{points}\n")
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


POWER = """
from muster.cluster.resources import Resource

POWER = Resource("power_watts", "W", per_gpu=True)
TWICE = Resource("cpus", "cores", per_gpu=False)
COLUMN = Resource("priority", "W", per_gpu=False)
LICENCES = Resource("licences", "licences", per_gpu=False, divisible=False)
"""
TWO = "a = power:POWER\nb = power:LICENCES"


@pytest.mark.long  # It compiles the schedulers for five resources.
def test_schedulers_keep_within_the_power_of_each_node(tmp_path: Path) -> None:
    """Two nodes of 8 GPUs and 2,000 W: five GPUs at 400 W, so the other GPUs are for those that need less."""
    env = with_package(tmp_path, POWER, "power = power:POWER")
    script = [sys.executable, "-m", "tests.resources.power_runs", *SCHEDULERS]
    done = subprocess.run(script, env=env, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)
    for name in SCHEDULERS:
        rows = runs[name]
        for job, _, gpus, watts, *_ in rows:
            assert watts == pytest.approx(gpus * (WATTS[int(job)] or 0)), name
        assert {row[0] for row in rows} == {str(number) for number in range(len(WATTS))}, name
        for moment in {row[4] for row in rows}:
            used: dict[str, float] = defaultdict(float)
            for _, node, _, watts, since, end in rows:
                used[node] += watts if since <= moment < end else 0.0
            assert max(used.values()) <= 2000.0 + 1e-6, name
    # Jobs 0 to 7 take all 4,000 W; those that need none start beside them, and the others when power is free again.
    for name in ("fifo+proportional+pack", "fifo+requested+pack"):
        started = [row[4] for number in range(8, 16) for row in runs[name] if row[0] == str(number)]
        assert started == [3600.0, 3600.0, 3604.0, 3601.0, 3602.0, 3603.0, 14.0, 15.0], name


@pytest.mark.long  # It compiles a scheduler for five resources.
def test_a_scheduler_that_ignores_a_resource_says_so(tmp_path: Path) -> None:
    env = with_package(tmp_path, POWER, "power = power:POWER")
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    (tmp_path / "trace.csv").write_text(
        "job_id,submit_seconds,gpus,duration_seconds,power_watts\na,0,1,100,400\nb,0,1,100,\n"
    )
    words = ["simulate", "trace.csv", "--cluster", "cluster.toml", "--scheduler", "smd"]
    command = [sys.executable, "-m", "muster", *words]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "this scheduler ignores power_watts, which 1 job of 2 state" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ("a = power:TWICE", "two resources have this name"),
        ("a = power:COLUMN", "a trace has a column of this name"),
        ("a = power:NONE", "cannot be loaded: AttributeError"),
        ("a = power:__name__", "allowed: a muster.cluster.resources.Resource"),
    ],
)
def test_an_unusable_resource_is_refused_by_name(tmp_path: Path, points: str, words: str) -> None:
    env = with_package(tmp_path, POWER, points)
    command = [sys.executable, "-m", "muster", "simulate", "trace.csv", "--cluster", "1x1gpu"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "muster.resources" in done.stderr
    assert words in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ("volts = 1.0", "no installed package describes this resource; there are: power_watts, licences"),
        ("licences = 1.5", "resources.licences: found 1.5; allowed: a whole number of licences"),
    ],
)
def test_a_cluster_file_states_what_resources_allow(tmp_path: Path, resources: str, words: str) -> None:
    env = with_package(tmp_path, POWER, TWO)
    (tmp_path / "cluster.toml").write_text(
        f'[types.a]\ngpus = 8\nresources = {{ {resources} }}\n[[nodes]]\ntype = "a"\n'
    )
    command = [sys.executable, "-m", "muster", "simulate", "trace.csv", "--cluster", "cluster.toml"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())


@pytest.mark.long  # It compiles a scheduler for six resources.
def test_a_submitted_job_holds_what_it_requests(tmp_path: Path) -> None:
    """A node of 8 GPUs, 2,000 W and 1 licence: its power is held before its GPUs are."""
    me = Person(environment=with_package(tmp_path, POWER, TWO))
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(
        '[types.a]\ngpus = 8\nresources = { power_watts = 2000.0, licences = 1 }\n[[nodes]]\ntype = "a"\n'
    )
    flags = ("--scheduler", "fifo", "--fake-nodes", str(cluster))
    with open_folder(0o700) as folder:
        home = folder / "home"

        def submit(*words: str) -> str:
            done = me.types(home, "submit", "--steps", "10000000", *words, "--", "true")
            return " ".join(done.stderr.split())

        def job(number: int) -> Any:
            with Client(f"unix://{socket_path(home)}") as client:
                return client.get(f"/v1/jobs/{number}")

        with me.serves(home, *flags):
            submit("--gpus", "2", "--resource", "power_watts=800", "--resource", "licences=1")
            submit("--resource", "power_watts=400")
            submit("--resource", "power_watts=400")
            submit()
            until(lambda: [job(number)["state"] for number in (1, 2, 4)] == ["running"] * 3, "the others")
            assert job(1)["holds"][0]["resources"] == {"power_watts": 1600.0, "licences": 1.0}
            assert job(3)["state"] == "queued"
            why = " ".join(me.types(home, "why", "3").stdout.split())
            assert "needs 1 GPU together with their CPUs, memory, power_watts and licences" in why
            assert "It also needs 400 W for each GPU (power_watts)." in why
            for words, error in (
                ("volts=1", "volts: no installed package describes this resource; there are: power_watts"),
                ("licences=0.5", "licences: allowed: a whole number of licences"),
                ("power_watts=2500", "--resource: found 2500"),
                ("power_watts", "--resource: found 'power_watts'; allowed: NAME=AMOUNT"),
            ):
                assert error in submit("--resource", words), words
            error = submit("--gpus", "0", "--cpus", "1", "--memory", "1GB", "--resource", "power_watts=1")
            assert "power_watts is stated for each GPU" in error
        with me.serves(home, *flags):
            until(lambda: job(1)["holds"], "the first job")
            assert job(1)["holds"][0]["resources"] == {"power_watts": 1600.0, "licences": 1.0}
            assert job(3)["state"] == "queued"
            me.types(home, "cancel", "1")
            until(lambda: job(3)["state"] == "running", "the power of the first job")
