"""What this machine has, found or declared."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from muster.cgroups.own_limits import cores_of, memory_gb_of
from muster.problems import InputError
from muster.service.machine import find_machine
from tests.service.engines.bench import until

# As `nvidia-smi -L` prints them: NVIDIA's MIG user guide, "Running CUDA Applications on Bare-Metal"; before R470
# an instance was called by its GPU and two numbers.
H100S = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-950792bf-a01c-3f1a-e122-3473e67f54b2)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0f31c5a4-1d9c-5b63-9b0e-7b6a1c1f7f11)
GPU 2: NVIDIA L4 (UUID: GPU-0f99d1e2-4a5b-1111-2222-333344445555)
"""
DIVIDED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1c.3g.20gb  Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-477d8e8e-4bd4-5f6f-9b4a-1d5e8c1b2a10)
GPU 2: A100-SXM4-40GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)
  MIG 1g.5gb Device 0: (UUID: MIG-GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f/7/0)
"""
FIRST, SECOND = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb"
OLD = "MIG-GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f/7/0"
NO_FIELD = 'Field "mig.mode.current" is not a valid field to query.'


def nvidia_smi(folder: Path, listed: str, *, status: int = 0, modes: str = NO_FIELD, used: str = "") -> None:
    """A command of that name which answers so."""
    for name, text in (("listed", listed), ("modes", modes), ("used", used)):
        (folder / name).write_text(text)
    program = folder / "nvidia-smi"
    program.write_text(
        f"""#!/bin/sh
case "$*" in
-L) exec 0<{folder}/listed; status={status};;
--query-gpu=*) exec 0<{folder}/modes; status={2 if modes == NO_FIELD else 0};;
*) exec 0<{folder}/used; status=0;;
esac
while IFS= read -r line; do echo "$line"; done
exit $status
"""
    )
    program.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands are searched."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def test_what_is_found(tools: Path) -> None:
    nvidia_smi(tools, H100S)
    machine = find_machine()
    assert machine.node.gpus == machine.node.gpus_per_island == 3
    assert machine.node.gpu_type == "NVIDIA H100 80GB HBM3"
    assert machine.gpu_names == ("0", "1", "2")
    assert machine.warnings == ()
    assert machine.cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert 0 < machine.node.cpus == machine.cores <= len(machine.cpus)
    assert machine.real_cpus_per_cpu == 1
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    assert 0 < machine.node.memory_gb <= total * 1.001
    assert machine.cluster.nodes == (machine.node,)


@pytest.mark.parametrize(
    ("allowed", "names", "gpu_type"),
    [
        ("2,1", ("2", "1"), "NVIDIA L4"),
        (" 1 , 2 ", ("1", "2"), "NVIDIA H100 80GB HBM3"),
        ("GPU-0f99", ("2",), "NVIDIA L4"),
        ("GPU-950792bf-a01c-3f1a-e122-3473e67f54b2,1", ("0", "1"), "NVIDIA H100 80GB HBM3"),
    ],
)
def test_only_the_gpus_that_the_daemon_may_use(
    tools: Path, monkeypatch: pytest.MonkeyPatch, allowed: str, names: tuple[str, ...], gpu_type: str
) -> None:
    nvidia_smi(tools, H100S)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    machine = find_machine()
    assert (machine.gpu_names, machine.node.gpu_type) == (names, gpu_type)
    assert find_machine(gpus=1).gpu_names == names[:1]


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ("0,-1", ["-1"]),
        ("0,0", ["0"]),
        ("1,GPU-0f31", ["1"]),
        ("0,3,nonsense", ["3", "nonsense"]),
        ("GPU-0f", ["GPU-0f"]),
        ("0,,1", [""]),
        ("MIG-12", ["MIG-12"]),
    ],
)
def test_names_that_are_no_gpu_or_come_twice_are_refused(
    tools: Path, monkeypatch: pytest.MonkeyPatch, allowed: str, refused: list[str]
) -> None:
    nvidia_smi(tools, H100S)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    with pytest.raises(InputError) as raised:
        find_machine(gpus=1)
    assert [problem.found for problem in raised.value.problems] == refused
    assert {problem.where for problem in raised.value.problems} == {"CUDA_VISIBLE_DEVICES"}


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_gpus_are_neither_found_nor_handed_out(
    tools: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    nvidia_smi(tools, H100S)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES hides all"):
        find_machine()
    assert find_machine(gpus=2).gpu_names == ("3", "4")


def test_declared_gpus_beyond_the_found_ones_are_absent(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tools, H100S)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    machine = find_machine(gpus=4)
    assert machine.gpu_names == ("1", "2", "3", "4")
    assert machine.warnings[0].startswith("2 of 4 declared GPUs are not there")


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (None, (FIRST, SECOND, "1", OLD)),
        ("0", (FIRST, SECOND)),
        (f"1,{SECOND}", ("1", SECOND)),
        ("MIG-c6d4", (FIRST,)),
        (OLD, (OLD,)),
    ],
)
def test_of_a_divided_gpu_the_instances_are_used(
    tools: Path, monkeypatch: pytest.MonkeyPatch, allowed: str | None, names: tuple[str, ...]
) -> None:
    nvidia_smi(tools, DIVIDED)
    if allowed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    machine = find_machine()
    assert machine.gpu_names == names
    if names[0] == FIRST:
        assert machine.node.gpu_type == "NVIDIA A100-SXM4-40GB MIG 3g.20gb"


def test_a_gpu_that_is_divided_into_nothing_is_said_and_not_used(tools: Path) -> None:
    uuids = [line.split("UUID: ")[1].rstrip(")") for line in H100S.splitlines()]
    modes = "".join(
        f"{uuid}, {mode}\n" for uuid, mode in zip(uuids, ("Enabled", "Disabled", "[N/A]"), strict=True)
    )
    nvidia_smi(tools, H100S, modes=modes)
    machine = find_machine()
    assert machine.gpu_names == ("1", "2")
    assert machine.warnings == (
        "GPU 0 (NVIDIA H100 80GB HBM3) is in MIG mode and has no instance: jobs cannot use it",
    )


def test_a_lost_gpu_is_said_and_the_others_are_used(tools: Path) -> None:
    lost = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error"
    nvidia_smi(tools, "\n".join([H100S.splitlines()[0], lost, H100S.splitlines()[2]]) + "\n", status=15)
    machine = find_machine()
    assert machine.gpu_names == ("0", "2")
    assert machine.warnings == (f"nvidia-smi: {lost}",)


def test_gpus_that_somebody_else_computes_on_are_said(tools: Path) -> None:
    """A job of Muster's own, which a daemon finds when it comes back, is no stranger."""
    uuid = "GPU-950792bf-a01c-3f1a-e122-3473e67f54b2"
    with subprocess.Popen(["/bin/sleep", "600"], env={"MUSTER_START": "/somewhere/engine/1.1"}) as ours:
        until(lambda: b"sleep" in Path(f"/proc/{ours.pid}/cmdline").read_bytes(), "a job")
        used = f"{uuid}, {os.getpid()}, python, and more\n{uuid}, {ours.pid}, sleep\nGPU-elsewhere, 1, init\n"
        nvidia_smi(tools, H100S, used=used)
        machine = find_machine()
        ours.kill()
    words = f"GPU 0 is in use by process {os.getpid()} (python, and more), which is no job of Muster's"
    assert machine.warnings == (words,)


def test_what_is_declared_is_believed(tools: Path) -> None:
    machine = find_machine(gpus=8, cpus=24.0, memory_gb=500.0, name="big")
    node = machine.node
    assert (node.name, node.gpus, node.cpus, node.memory_gb) == ("big", 8, 24, 500)
    assert machine.gpu_names == tuple("01234567")
    assert machine.real_cpus_per_cpu == pytest.approx(machine.cores / 24)


NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)


@pytest.mark.parametrize(
    ("listed", "status", "why"),
    [
        (None, 0, "there is no nvidia-smi"),
        (NO_DRIVER + "\n", 9, f"nvidia-smi failed with status 9: {NO_DRIVER}"),
        ("No devices were found\n", 6, "nvidia-smi failed with status 6: No devices were found"),
        ("No devices were found\n", 0, "nvidia-smi: No devices were found"),
        ("", 0, "nvidia-smi: lists no GPU"),
        ("", 1, "nvidia-smi failed with status 1: it said nothing"),
    ],
)
def test_without_gpus_the_error_says_why_and_how_to_declare_some(
    tools: Path, monkeypatch: pytest.MonkeyPatch, listed: str | None, status: int, why: str
) -> None:
    if listed is not None:
        nvidia_smi(tools, listed, status=status)
    with pytest.raises(InputError) as raised:
        find_machine()
    assert why in str(raised.value)
    assert "--gpus 8" in str(raised.value)
    assert find_machine(gpus=2).warnings == (() if listed is None else (why,))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert find_machine(gpus=3).gpu_names == ("2", "3", "4")


def test_a_driver_that_hangs_is_not_waited_for(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tools / "nvidia-smi").write_text("#!/bin/sh\n/bin/sleep 600\n")
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr("muster.gpus.QUERY_SECONDS", 0.1)
    with pytest.raises(InputError, match="nvidia-smi has not answered within"):
        find_machine()


def test_all_problems_of_a_machine_are_reported(tools: Path) -> None:
    with pytest.raises(InputError) as raised:
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
