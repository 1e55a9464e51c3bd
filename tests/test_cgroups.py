"""Control groups, the real ones of this machine: what is granted is what processes get, and nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.cgroups import Ability, CgroupError, Cgroups, Group, find_cgroups
from muster.cgroups.finding import v2_base

BUSY = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"
FORKING = "import os, time\nfor _ in range(6):\n    os.fork()\nos.write(1, b'forked\\n')\ntime.sleep(600)"


@pytest.fixture
def cgroups() -> Cgroups:
    found, how = find_cgroups()
    if found is None:
        pytest.skip(f"no control groups to test on: {how}")
    return found


@pytest.fixture
def name() -> str:
    return f"test-{os.getpid()}-{time.monotonic_ns()}"


@pytest.fixture
def group(cgroups: Cgroups, name: str) -> Iterator[Group]:
    group = cgroups.group(name)
    yield group
    group.kill()
    group.remove()


def needs(cgroups: Cgroups, ability: Ability) -> None:
    if ability not in cgroups.abilities:
        pytest.skip(f"control groups of this machine have no {ability}")


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, with pipes; killed if it still runs at the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        yield process
        process.kill()


def status_of(command: list[str]) -> int:
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def test_a_quarter_of_a_core_takes_four_times_as_long(cgroups: Cgroups, group: Group) -> None:
    needs(cgroups, Ability.CPU_QUOTA)
    needs(cgroups, Ability.CPU_SECONDS)
    group.set_cpu_quota(0.25)
    begin = time.monotonic()
    assert status_of(group.entering(python(BUSY.format(seconds=0.4)))) == 0
    seconds = time.monotonic() - begin
    # The last period need not be waited for: 0.4 s less 25 ms at the quarter rate.
    assert seconds > (0.4 - 0.025) / 0.25 - 0.1
    assert 0.4 <= group.cpu_seconds() <= 0.25 * seconds + 0.05


def test_a_quota_can_be_lifted(cgroups: Cgroups, group: Group) -> None:
    needs(cgroups, Ability.CPU_QUOTA)
    group.set_cpu_quota(0.01)
    with started(group.entering(python(BUSY.format(seconds=0.3)))) as process:
        group.set_cpu_quota(None)
        assert process.wait() == 0
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"at least 0\.01 cores"):
            group.set_cpu_quota(wrong)


def test_processes_run_on_the_cpus_they_were_given(cgroups: Cgroups, group: Group) -> None:
    needs(cgroups, Ability.CPU_SET)
    last = max(os.sched_getaffinity(0))
    group.set_cpus([last])
    reply = subprocess.check_output(
        group.entering(python("import os; print(os.sched_getaffinity(0))")), text=True
    )
    assert reply.strip() == f"{{{last}}}"
    with pytest.raises(CgroupError, match="cannot run on CPUs 4000"):
        group.set_cpus([4000])


def test_memory_beyond_the_limit_is_death_and_is_counted(cgroups: Cgroups, group: Group) -> None:
    needs(cgroups, Ability.MEMORY_LIMIT)
    group.set_memory_limit(0.1)
    assert status_of(group.entering(python("bytearray(20_000_000)"))) == 0
    assert group.memory_kills() == 0
    assert status_of(group.entering(python("bytearray(300_000_000)"))) == -9
    assert group.memory_kills() == 1
    group.set_memory_limit(None)
    assert status_of(group.entering(python("bytearray(300_000_000)"))) == 0


def test_memory_in_use_is_what_processes_hold(cgroups: Cgroups, group: Group) -> None:
    needs(cgroups, Ability.MEMORY_USED)
    holding = "x = b'1' * 300_000_000; print('held', flush=True); input()"
    with started(group.entering(python(holding))) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert 0.3 < group.memory_gb() < 0.4


def test_a_weight_is_taken(cgroups: Cgroups, group: Group) -> None:
    needs(cgroups, Ability.CPU_WEIGHT)
    for weight in (1, 100, 10_000):
        group.set_cpu_weight(weight)
    cgroups.set_cpu_weight_of_all(100)
    with pytest.raises(ValueError, match="from 1 to 10000"):
        group.set_cpu_weight(0)


def test_no_forked_child_survives_a_kill(group: Group) -> None:
    with started(group.entering(python(FORKING))) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(64)] == ["forked\n"] * 64
        assert len(group.pids()) == 64
        with pytest.raises(CgroupError, match="processes are in it"):
            group.remove()
        assert group.kill()
        assert group.pids() == ()
        assert process.wait() == -9


def test_groups_that_a_job_has_made_for_itself_end_with_its_own(cgroups: Cgroups, group: Group) -> None:
    """Below its own, two deep, and its processes in the deepest."""
    inner = [folder / "own" / "deep" for folder in group.folders]
    for folder in inner:
        folder.mkdir(parents=True)
        for cpuset in ("cpuset.cpus", "cpuset.mems"):
            for below in (folder.parent, folder):
                if (below / cpuset).exists():
                    (below / cpuset).write_text((folder.parents[1] / cpuset).read_text())
    with started(python("print('up', flush=True); import time; time.sleep(600)")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for folder in inner:
            (folder / "cgroup.procs").write_text(str(process.pid))
        assert group.pids() == (process.pid,)
        with pytest.raises(CgroupError, match="processes are in it"):
            group.remove(within_seconds=0)
        assert group.kill()
        assert process.wait() == -9
    group.remove()
    assert not any(folder.exists() for folder in group.folders)


def test_a_process_enters_before_it_is_the_job(group: Group) -> None:
    shown = python("print(open('/proc/self/cgroup').read())")
    reply = subprocess.check_output(group.entering(shown), text=True)
    assert reply.count(f"/{group.name}.group") == len(group.folders)


def test_a_running_process_is_added(group: Group) -> None:
    with started(python("input()")) as process:
        group.add(process.pid)
        assert group.pids() == (process.pid,)
    with pytest.raises(ProcessLookupError):
        group.add(process.pid)


def test_a_launched_job_has_the_launchers_number_and_status(group: Group) -> None:
    with started(group.entering(python("import os, sys; print(os.getpid()); sys.exit(7)"))) as process:
        reply, _ = process.communicate()
        assert (int(reply), process.returncode) == (process.pid, 7)
    with started(group.entering(["there is no such command"])) as process:
        _, complaint = process.communicate()
        assert process.returncode == 1
    assert complaint == "muster: there is no such command cannot be started: No such file or directory\n"


def test_a_group_outlives_its_maker(cgroups: Cgroups, name: str) -> None:
    maker = f"""
import os, subprocess
from muster.cgroups import find_cgroups
group = find_cgroups()[0].group({name!r})
command = group.entering([{sys.executable!r}, "-c", "import time; time.sleep(600)"])
job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
while not group.pids():
    pass
print(job.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    killed = subprocess.run(python(maker), stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -9
    assert name in cgroups.standing()
    group = cgroups.standing()[name]
    assert group.pids() == (int(killed.stdout),)
    assert cgroups.group(name).folders == group.folders
    assert group.kill()
    group.remove()
    group.remove()
    assert name not in cgroups.standing()
    assert not any(folder.exists() for folder in group.folders)
    assert group.pids() == ()


def test_names_that_are_no_folders_are_refused(cgroups: Cgroups) -> None:
    for wrong in ("", "..", "a/b", ".hidden", "a\n", "x" * 101):
        with pytest.raises(ValueError, match="a group's name has"):
            cgroups.group(wrong)


def test_version_2_where_it_has_no_controllers(name: str) -> None:
    """Most machines with v1 have v2 beside it, empty: enough for processes, their time and their end."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    trees = [Path(mount) for mount in mounts if (Path(mount) / "cgroup.controllers").exists()]
    if not trees or not os.access(trees[0], os.W_OK):
        pytest.skip("cgroup v2 is not mounted, or not for this user")
    group = Cgroups(2, {"": trees[0]}, trees[:1]).group(name)
    try:
        assert status_of(group.entering(python(BUSY.format(seconds=0.2)))) == 0
        assert group.cpu_seconds() >= 0.2
        with started(group.entering(python(FORKING))) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "forked\n"
            assert group.kill()
            assert group.pids() == ()
        with pytest.raises(CgroupError, match="no controller cpu"):
            group.set_cpu_quota(1)
    finally:
        group.kill()
        group.remove()


def test_version_2_writes_what_its_documentation_asks_for(tmp_path: Path) -> None:
    """On a plain folder, for machines without its controllers; kernel documentation, cgroup-v2."""
    controllers = ("cpu", "cpuset", "memory")
    (tmp_path / "cgroup.subtree_control").write_text(" ".join(controllers))
    group = Cgroups(2, dict.fromkeys(controllers, tmp_path), [tmp_path]).group("17")
    (folder,) = group.folders

    def written(file: str) -> str:
        return (folder / file).read_text()

    group.set_cpu_quota(1.5)
    assert written("cpu.max") == "150000 100000"
    group.set_cpu_quota(None)
    assert written("cpu.max") == "max 100000"
    group.set_cpu_weight(250)
    assert written("cpu.weight") == "250"
    group.set_cpus([3, 1, 1])
    assert written("cpuset.cpus") == "1,3"
    group.set_memory_limit(0.5)
    assert written("memory.max") == "500000000"
    group.set_memory_limit(None)
    assert written("memory.max") == "max"
    (folder / "memory.current").write_text("700000000")
    (folder / "memory.stat").write_text("anon 1\ninactive_file 200000000\n")
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.memory_gb() == 0.5
    assert group.memory_kills() == 2


def test_groups_are_not_made_beside_processes_in_version_2(tmp_path: Path) -> None:
    """On plain folders: the kernel lets a group that holds processes hand down cpu, to threads alone."""
    for folder, processes in (("", "1\n"), ("slice", ""), ("slice/scope", "12\n")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.subtree_control").write_text("cpu cpuset memory\n")
        (tmp_path / folder / "cgroup.procs").write_text(processes)
        if folder:
            (tmp_path / folder / "cgroup.type").write_text("domain\n")
    assert v2_base(tmp_path, tmp_path / "slice" / "scope") == tmp_path / "slice"
    (tmp_path / "slice" / "cgroup.procs").write_text("13\n")
    assert v2_base(tmp_path, tmp_path / "slice" / "scope") == tmp_path
    (tmp_path / "cgroup.type").write_text("domain\n")  # the root of a container, which is none of the machine
    assert v2_base(tmp_path, tmp_path / "slice" / "scope") is None
