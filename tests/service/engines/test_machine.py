"""What this machine has, found or declared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.cgroups.own_limits import cores_of, memory_gb_of
from muster.problems import BadInput
from muster.service.machine import find_machine


def nvidia_smi(folder: Path, *lines: str, status: int = 0) -> None:
    """A command of that name which answers so."""
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines) + f"exit {status}\n")
    program.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands are searched."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def test_what_is_found(tools: Path) -> None:
    nvidia_smi(tools, "0, NVIDIA H100 80GB HBM3", "1, NVIDIA H100 80GB HBM3")
    machine = find_machine()
    assert machine.node.gpus == machine.node.gpus_per_island == 2
    assert machine.node.gpu_type == "NVIDIA H100 80GB HBM3"
    assert machine.gpu_names == ("0", "1")
    assert machine.cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert 0 < machine.node.cpus == machine.cores <= len(machine.cpus)
    assert machine.real_cpus_per_cpu == 1
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    assert 0 < machine.node.memory_gb <= total * 1.001
    assert machine.cluster.nodes == (machine.node,)


def test_only_the_gpus_that_the_daemon_may_use(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tools, "0, A", "1, B", "2, B")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    machine = find_machine()
    assert (machine.gpu_names, machine.node.gpu_type) == (("2", "1"), "B")
    assert find_machine(gpus=1).gpu_names == ("2",)


def test_what_is_declared_is_believed(tools: Path) -> None:
    machine = find_machine(gpus=8, cpus=24.0, memory_gb=500.0, name="big")
    node = machine.node
    assert (node.name, node.gpus, node.cpus, node.memory_gb) == ("big", 8, 24, 500)
    assert machine.gpu_names == tuple("01234567")
    assert machine.real_cpus_per_cpu == pytest.approx(machine.cores / 24)


@pytest.mark.parametrize("broken", ["absent", "fails", "says nothing"])
def test_without_gpus_one_is_told_to_declare_some(tools: Path, broken: str) -> None:
    if broken != "absent":
        nvidia_smi(tools, *(["No devices were found"] if broken == "fails" else []), status=broken == "fails")
    with pytest.raises(BadInput, match="--gpus 8"):
        find_machine()


def test_all_that_is_wrong_is_told(tools: Path) -> None:
    with pytest.raises(BadInput) as raised:
        find_machine(gpus=61, cpus=0.0, memory_gb=float("nan"))
    assert [problem.where for problem in raised.value.problems] == ["--cpus", "--memory", "--gpus"]


@pytest.mark.parametrize(
    ("files", "cores", "memory_gb"),
    [
        ({"cpu.max": "150000 100000", "memory.max": "2000000000"}, 1.5, 2.0),
        ({"cpu.max": "max 100000", "memory.max": "max"}, None, None),
        ({"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}, 0.5, None),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, None, None),
        ({"memory.limit_in_bytes": "9223372036854771712"}, None, None),
        ({"memory.limit_in_bytes": "3000000000"}, None, 3.0),
        ({}, None, None),
    ],
)
def test_limits_of_a_container(
    tmp_path: Path, files: dict[str, str], cores: float | None, memory_gb: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert cores_of(tmp_path) == (float("inf") if cores is None else cores)
    assert memory_gb_of(tmp_path) == (float("inf") if memory_gb is None else memory_gb)
