"""Machines that went down, folders that cannot be read: what lives is kept, and what was lost is reported as lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from muster import processes
from muster.service.engines import Exit
from muster.service.engines.local import engine as engine_module
from muster.service.engines.local.launch_context import spawn_supervisor
from tests.service.engines.bench import Bench, shell, until


def folder(bench: Bench, job: int) -> Path:
    return bench.folder / "engine" / f"{job}.1"


def killed_with_its_supervisor(bench: Bench) -> None:
    """As by the end of a machine, or a container: all at once."""
    pid = bench.supervisor(1, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: bench.left(1, 1) == [], "the end of its ranks")


def test_gpus_that_the_machine_has_no_more(bench: Bench) -> None:
    """A start that was committed before the daemon was started again with fewer."""
    bench.launch(1, 1, shell("echo ran"), gpus=(1, 8, 9))
    end = bench.end(1, 1)
    assert (end.ended, end.message) == (Exit.LOST, "this machine has no GPU 8, 9 any more")
    assert bench.output(1) == ""


def test_a_group_that_admits_no_process_is_no_fault_of_the_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bench.engine._cgroups is None:
        pytest.skip("no control groups on this machine")

    def spawn_without_group(folder: Path) -> int:
        group = bench.engine._starts[1, 1].group
        assert group is not None
        group.remove()
        return spawn_supervisor(folder)

    monkeypatch.setattr(engine_module, "spawn_supervisor", spawn_without_group)
    bench.launch(1, 1, shell("echo ran"))
    end = bench.end(1, 1)
    assert end.ended is Exit.LOST
    assert "cgroup.procs: No such file or directory" in end.message
    assert bench.output(1) == ""


@pytest.mark.parametrize("last", ["status", "progress-1.json", "0.log"])
def test_a_start_lost_with_its_machine_ends_at_its_last_sign(bench: Bench, last: str) -> None:
    bench.launch(1, 1, shell("echo x > $MUSTER_RUN_DIR/progress-1.json; echo up; exec sleep 600"))
    bench.says("up", 1)
    killed_with_its_supervisor(bench)
    friday = time.time() - 200_000
    signs = (
        folder(bench, 1) / "status",
        bench.folder / "1/run/progress-1.json",
        bench.folder / "1/output/0.log",
    )
    for path in signs:
        moment = friday + 100 * (path.name == last)
        os.utime(path, (moment, moment))
    end = bench.reopen().observe()[0]
    assert end.ended is Exit.LOST
    assert end.since == pytest.approx(friday + 100, abs=0.001)
    assert bench.reopen().observe() == [end]


def test_an_end_is_never_in_the_future(bench: Bench) -> None:
    bench.launch(
        1, 1, shell("touch -d '2100-01-01' $MUSTER_RUN_DIR/progress-1.json; echo up; exec sleep 600")
    )
    bench.says("up", 1)
    killed_with_its_supervisor(bench)
    assert bench.reopen().observe()[0].since <= time.time()


def test_one_that_was_seen_alive_has_been_killed(bench: Bench) -> None:
    bench.launch(1, 1, ["sleep", "600"])
    bench.supervisor(1, 1)
    before = time.time()
    bench.reopen().observe()
    killed_with_its_supervisor(bench)
    end = bench.end(1, 1)
    assert end.ended is Exit.KILLED
    assert before <= end.since <= time.time()


def test_a_living_start_that_cannot_be_read_is_kept(bench: Bench) -> None:
    bench.launch(1, 1, shell("while [ ! -e go ]; do sleep 0.01; done"))
    supervisor = bench.supervisor(1, 1)
    launch, aside = folder(bench, 1) / "launch.json", bench.folder / "aside"
    launch.rename(aside)
    with pytest.raises(OSError, match="the supervisor of that start lives"):
        bench.reopen()
    launch.mkdir()  # it cannot be read, and it is there
    with pytest.raises(IsADirectoryError):
        bench.reopen()
    launch.rmdir()
    aside.rename(launch)
    assert processes.look_at(supervisor) is not None
    (bench.folder / "go").touch()
    bench.reopen()
    assert bench.end(1, 1).ended is Exit.COMPLETED


def test_what_a_crash_of_the_machine_left_in_pieces_goes(bench: Bench) -> None:
    for job, lost in ((1, "launch.json"), (2, "lock"), (3, "wanted")):
        bench.launch(job, 1, ["true"])
        bench.end(job, 1)
        bench.until_nothing_is_left(job, 1)
        path = folder(bench, job) / lost
        path.write_bytes(bytes(100)) if lost == "wanted" else path.unlink()
    (bench.folder / "engine" / "4.1.part").mkdir()
    assert bench.reopen().observe() == []
    assert list((bench.folder / "engine").iterdir()) == []


def test_unreadable_files_of_one_start_hide_no_other_start(bench: Bench) -> None:
    for job in (1, 2):
        bench.launch(job, 1, shell("while [ ! -e go ]; do sleep 0.01; done"))
        bench.supervisor(job, 1)
    status, aside = folder(bench, 1) / "status", bench.folder / "aside"
    status.rename(aside)
    status.mkdir()
    (bench.folder / "go").touch()
    assert bench.end(2, 1).ended is Exit.COMPLETED
    one = bench.observed(1, 1)
    assert one is not None
    assert one.ended is None
    status.rmdir()
    aside.rename(status)
    assert bench.end(1, 1).ended is Exit.COMPLETED


def test_a_start_is_forgotten_though_its_group_is_busy(bench: Bench) -> None:
    """It goes later; nothing waits for that, and it is no error."""
    if bench.engine._cgroups is None:
        pytest.skip("no control groups on this machine")
    bench.launch(1, 1, ["true"])
    assert bench.end(1, 1).ended is Exit.COMPLETED
    group = bench.engine._starts[1, 1].group
    assert group is not None
    for folder in group.folders:
        (folder / "own" / "deep").mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        group.add(stranger.pid)
        bench.engine.forget(1, 1)
        assert bench.engine.observe() == []
        assert group.folders[0].exists()
        stranger.kill()
    until(lambda: bench.engine.observe() == [] and not any(map(Path.exists, group.folders)), "its end")


def test_a_launch_does_not_go_through_all_groups_of_the_machine(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bench.engine._cgroups is None:
        pytest.skip("no control groups on this machine")
    monkeypatch.setattr("muster.cgroups.finding._group_folders", None)
    bench.launch(1, 1, ["true"])
    assert bench.end(1, 1).ended is Exit.COMPLETED
    bench.engine.forget(1, 1)
    monkeypatch.undo()
