"""ResourceLimits of CPU and memory, as running processes and the kernel see them; by control groups and without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.cgroups import Ability, find_cgroups
from muster.service.engines import Exit
from muster.service.machine import find_machine
from tests.service.engines.bench import Bench, affinity, python, shell, until

CPUS = sorted(os.sched_getaffinity(0))
two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
HOARDING = """
import signal, time
hoard = []
def more(*_): hoard.append(bytearray(b"x" * 150_000_000)); print("more", flush=True)
def drop(*_): hoard.clear(); print("dropped", flush=True)
signal.signal(signal.SIGUSR1, more)
signal.signal(signal.SIGUSR2, drop)
signal.signal(signal.SIGHUP, more)
print("up", flush=True)
while True: time.sleep(60)
"""


def rank(bench: Bench, job: int) -> int:
    bench.supervisor(job, 1)
    pids = bench.records(job, 1)[1]["ranks"]
    assert isinstance(pids, list)
    return int(pids[0])


@two_cpus
def test_a_running_start_gets_other_cpus(way: str, bench: Bench) -> None:
    """With its threads and its children, old and new ones."""
    source = """
import os, threading, time
child = os.fork()
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
if child:
    print("up", flush=True)
while True: time.sleep(0.005)
"""
    bench.launch(1, 1, python(source), cpus=1.0)
    bench.says("up", 1)
    pid = rank(bench, 1)
    until(lambda: len(bench.left(1, 1)) == 3, "the child")  # with the supervisor
    family = [one for one in bench.left(1, 1) if one != bench.supervisor(1, 1)]
    assert pid in family

    def on(count: int) -> bool:
        threads = [int(path.name) for one in family for path in Path(f"/proc/{one}/task").iterdir()]
        assert len(threads) == 4
        return all(len(affinity(thread)) == count for thread in threads)

    until(lambda: on(1), "one CPU")
    bench.engine.resize(1, 1, [bench.allocation(cpus=2.0)])
    until(lambda: on(2), "two CPUs")
    bench.reopen().resize(1, 1, [bench.allocation(cpus=1.0)])
    until(lambda: on(1), "one CPU again")
    assert bench.observed(1, 1).ended is None  # type: ignore[union-attr]


@two_cpus
def test_two_starts_run_on_different_cpus(way: str, bench: Bench) -> None:
    for job in (1, 2):
        bench.launch(job, 1, ["sleep", "600"], cpus=1.0)
    pids = [rank(bench, job) for job in (1, 2)]
    until(lambda: len(affinity(pids[0])) == len(affinity(pids[1])) == 1, "one CPU each")
    assert not affinity(pids[0]) & affinity(pids[1])
    bench.engine.kill(1, 1)
    bench.end(1, 1)
    bench.engine.resize(2, 1, [bench.allocation(cpus=2.0)])
    until(lambda: len(affinity(pids[1])) == 2, "both")


def test_a_job_starts_on_the_cpus_that_it_was_given(way: str, bench: Bench) -> None:
    bench.launch(1, 1, python("import os; print(len(os.sched_getaffinity(0)))"), cpus=1.0)
    bench.end(1, 1)
    assert bench.output(1) == "1\n"


def quota_cores(bench: Bench, job: int) -> float:
    """What the kernel has on file for the group of a start."""
    group = bench.engine._starts[job, 1].group
    assert group is not None
    folder = next(folder for folder in group.folders if list(folder.glob("cpu.*")))
    if (folder / "cpu.max").exists():
        quota, period = (folder / "cpu.max").read_text().split()
    else:
        quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return float(quota) / float(period)


def test_declared_cpus_are_a_share_of_the_real_ones(tmp_path: Path) -> None:
    cgroups, how = find_cgroups()
    if cgroups is None or Ability.CPU_QUOTA not in cgroups.abilities:
        pytest.skip(how)
    machine = find_machine(gpus=8, cpus=24.0, memory_gb=500.0)
    bench = Bench(tmp_path, machine)
    assert f"24 are declared of {machine.cores:g}" in bench.engine.enforces
    assert "500 GB are declared" in bench.engine.enforces
    assert "GPUs: environment only" in bench.engine.enforces
    bench.launch(1, 1, ["sleep", "600"], cpus=6.0, memory_gb=125.0)
    pid = rank(bench, 1)
    assert quota_cores(bench, 1) == pytest.approx(6 * machine.cores / 24)
    assert affinity(pid) == set(CPUS)
    bench.engine.resize(1, 1, [bench.allocation(cpus=3.0, memory_gb=125.0)])
    assert quota_cores(bench, 1) == pytest.approx(3 * machine.cores / 24)
    bench.clear()


def test_parts_of_a_real_cpu_are_a_quota(bench: Bench) -> None:
    cgroups, how = find_cgroups()
    if cgroups is None or Ability.CPU_QUOTA not in cgroups.abilities:
        pytest.skip(how)
    bench.launch(1, 1, ["sleep", "600"], cpus=0.5)
    assert quota_cores(bench, 1) == 0.5
    bench.engine.resize(1, 1, [bench.allocation(cpus=1.0)])
    assert quota_cores(bench, 1) < 0  # none is needed where it is alone


def test_what_cannot_be_enforced_is_said(way: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, find_machine(gpus=8, cpus=24.0))
    if way == "no cgroups":
        assert "CPUs: not enforced" in bench.engine.enforces
        bench.launch(1, 1, ["sleep", "600"], cpus=3.0)
        assert affinity(rank(bench, 1)) == set(CPUS)
    else:
        assert "not enforced" not in bench.engine.enforces
    bench.clear()


def test_more_memory_than_granted_ends_a_start(way: str, bench: Bench) -> None:
    bench.launch(1, 1, python(HOARDING), memory_gb=0.1)
    bench.says("up", 1)
    bench.engine.signal(1, 1, "SIGUSR1")
    end = bench.end(1, 1)
    assert (end.ended, end.status) == (Exit.KILLED, -9)
    assert end.message.startswith("killed by the memory limit of 0.1 GB")
    assert bench.reopen().observe() == [end]


def test_children_count_and_their_death_is_the_limits_doing(way: str, bench: Bench) -> None:
    """The rank itself only sees a child die, and ends with a status of its own."""
    child = "x = bytearray(b'x' * 150_000_000); import time; time.sleep(600)"
    source = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-ISc', {child!r}]).returncode and 5)"
    bench.launch(1, 1, python(source), memory_gb=0.1)
    end = bench.end(1, 1)
    assert end.ended is Exit.KILLED
    assert end.message.startswith("killed by the memory limit of 0.1 GB")


def test_pages_that_processes_share_count_once(way: str, bench: Bench) -> None:
    source = """
import os
hoard = bytearray(b"x" * 60_000_000)
children = []
for _ in range(4):
    ready, announce = os.pipe()
    if not os.fork():
        os.write(announce, b"!")
        while not os.path.exists("go"): pass
        os._exit(0)
    os.read(ready, 1)
print("up", flush=True)
for _ in range(4): os.wait()
"""
    bench.launch(1, 1, python(source), memory_gb=0.15)
    bench.says("up", 1)
    if way == "no cgroups":
        bench.engine._starts[1, 1].folder.want()  # ring: it looks at the memory now
    (bench.folder / "go").touch()
    assert bench.end(1, 1).ended is Exit.COMPLETED


def test_memory_shrinks_once_the_start_uses_no_more(bench: Bench) -> None:
    """A kernel that got the limit at once would kill it, or refuse."""
    cgroups, how = find_cgroups()
    if cgroups is None or Ability.MEMORY_LIMIT not in cgroups.abilities:
        pytest.skip(how)
    bench.launch(1, 1, python(HOARDING), memory_gb=1.0)
    bench.says("up", 1)
    bench.engine.signal(1, 1, "SIGUSR1")
    bench.says("more", 1)
    bench.engine.resize(1, 1, [bench.allocation(memory_gb=0.1)])
    bench.reopen()
    assert bench.observed(1, 1).ended is None  # type: ignore[union-attr]
    assert not bench.engine._starts[1, 1].memory_limited
    bench.engine.signal(1, 1, "SIGUSR2")
    bench.says("dropped", 1)
    until(lambda: bench.engine.observe() and bench.engine._starts[1, 1].memory_limited, "the limit")
    bench.engine.signal(1, 1, "SIGHUP")
    assert bench.end(1, 1).message == "killed by the memory limit of 0.1 GB"


def test_memory_grows_at_once(way: str, bench: Bench) -> None:
    bench.launch(1, 1, python(HOARDING), memory_gb=0.1)
    bench.says("up", 1)
    bench.engine.resize(1, 1, [bench.allocation(memory_gb=1.0)])
    bench.engine.signal(1, 1, "SIGUSR1")
    bench.says("more", 1)
    bench.engine.signal(1, 1, "SIGTERM")
    assert bench.end(1, 1).ended is Exit.STOPPED


def test_gpus_are_called_as_the_machine_calls_them(tmp_path: Path) -> None:
    from dataclasses import replace

    machine = replace(find_machine(gpus=2), gpu_names=("4", "GPU-8932f937"))
    bench = Bench(tmp_path, machine)
    bench.launch(1, 1, shell("echo $CUDA_VISIBLE_DEVICES"), gpus=(0, 1))
    bench.end(1, 1)
    assert bench.output(1) == "4,GPU-8932f937\n"
    bench.clear()


def test_the_engine_names_what_enforces_memory(way: str, bench: Bench) -> None:
    cgroups, _ = find_cgroups() if way == "cgroups" else (None, "")
    by_group = cgroups is not None and Ability.MEMORY_LIMIT in cgroups.abilities
    by = f"limit of cgroup v{cgroups.version}" if cgroups and by_group else "a look every second"
    assert f"; memory: {by}" in bench.engine.enforces
