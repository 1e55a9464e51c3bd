"""Jobs run as who submitted them, where the daemon is root."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from muster.service.engines import Exit
from muster.training.run_folder import checkpoint_folder
from tests.service.accounts import UNPRIVILEGED
from tests.service.engines.bench import Bench, shell


def test_processes_are_the_users_own(open_bench: Bench) -> None:
    source = """
id -u; id -g; id -G; grep -E '^(Cap(Prm|Eff)|Uid)' /proc/self/status; echo $HOME $USER
echo saved > $MUSTER_RUN_DIR/checkpoint && (flock -n 9 && echo locked) 9>> $MUSTER_RUN_DIR/lock
ls $MUSTER_START 2>&1; cat $MUSTER_START/launch.json 2>&1
kill -0 $PPID 2>&1
"""
    bench = open_bench
    bench.launch(1, 1, shell(source), user=UNPRIVILEGED, directory=Path("/"))
    bench.end(1, 1)
    account = pwd.getpwnam(UNPRIVILEGED)
    lines = bench.output(1).splitlines()
    assert lines[:2] == [str(account.pw_uid), str(account.pw_gid)]
    assert lines[2].split() == [str(group) for group in os.getgrouplist(UNPRIVILEGED, account.pw_gid)]
    assert lines[3].split()[1:] == [str(account.pw_uid)] * 4
    assert [line.split()[1] for line in lines[4:6]] == ["0" * 16] * 2
    assert lines[6:8] == [f"{account.pw_dir} {UNPRIVILEGED}", "locked"]
    assert (bench.folder / "1" / "run" / "checkpoint").owner() == UNPRIVILEGED
    assert ["denied" in line.lower() or "not permitted" in line.lower() for line in lines[8:] if line] == [
        True
    ] * 3
    bench.launch(1, 2, shell("cat $MUSTER_RUN_DIR/checkpoint"), user=UNPRIVILEGED, directory=Path("/"))
    assert bench.end(1, 2).ended is Exit.COMPLETED
    assert bench.output(1).endswith("saved\n")


def test_a_user_that_this_machine_has_not(open_bench: Bench) -> None:
    open_bench.launch(1, 1, ["true"], user="no-such-user")
    end = open_bench.end(1, 1)
    assert (end.ended, end.message) == (Exit.FAILED, "this machine has no user no-such-user")


def test_signals_and_an_end_reach_processes_of_others(open_bench: Bench) -> None:
    for job in (1, 2):
        open_bench.launch(job, 1, shell("echo up; exec sleep 600"), user=UNPRIVILEGED, directory=Path("/"))
        open_bench.says("up", job)
    open_bench.engine.signal(1, 1, "SIGTERM")
    open_bench.engine.kill(2, 1)
    assert [open_bench.end(job, 1).status for job in (1, 2)] == [-15, -9]


def test_a_folder_that_the_user_may_not_enter(open_bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    open_bench.launch(1, 1, ["true"], user=UNPRIVILEGED, directory=tmp_path / "private")
    end = open_bench.end(1, 1)
    assert end.ended is Exit.FAILED
    assert "Permission denied" in end.message


def test_the_fence_of_a_run_folder_is_its_users(open_bench: Bench) -> None:
    bench = open_bench
    bench.launch(1, 1, ["true"], user=UNPRIVILEGED, directory=Path("/"))
    bench.end(1, 1)
    assert checkpoint_folder(bench.folder / "1" / "run", 1).owner() == UNPRIVILEGED
