"""Who may look into whose folders, whatever umask the daemon was started with."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.service.engines import Exit
from muster.training.run_folder import give_notice
from tests.service.accounts import UNPRIVILEGED
from tests.service.engines.bench import Bench, shell

OWNER, STRANGER = UNPRIVILEGED, "daemon"


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> tuple[int, str]:
    found = path.stat()
    return stat.S_IMODE(found.st_mode), pwd.getpwuid(found.st_uid).pw_name


def can(user: str, *command: str | Path) -> bool:
    group = pwd.getpwnam(user).pw_gid
    return subprocess.run(command, user=user, group=group, extra_groups=[], check=False).returncode == 0


def test_only_its_owner_can_read_a_jobs_folder(umask: int, open_bench: Bench) -> None:
    bench = open_bench
    source = "mkdir $MUSTER_RUN_DIR/checkpoints && echo mine > $MUSTER_RUN_DIR/checkpoints/1 && echo said"
    bench.launch(17, 1, shell(source), user=OWNER, directory=Path("/"))
    assert bench.end(17, 1).ended is Exit.COMPLETED, bench.end(17, 1)
    job = bench.folder / "17"
    assert mode(job) == (0o711, "root")
    assert mode(job / "run") == (0o700, OWNER)
    assert mode(job / "output") == (0o700, "root")
    for path in (job / "run" / "checkpoints" / "1", job / "output" / "0.log", job / "whose"):
        assert not can(STRANGER, "cat", path)
    assert can(OWNER, "cat", job / "run" / "checkpoints" / "1")
    assert not can(OWNER, "cat", job / "output" / "0.log")


def test_folders_that_were_left_open_are_closed(open_bench: Bench) -> None:
    for name in ("17/run", "17/output"):
        (open_bench.folder / name).mkdir(parents=True)
        (open_bench.folder / name).chmod(0o777)
    open_bench.launch(17, 1, ["true"], user=OWNER, directory=Path("/"))
    assert open_bench.end(17, 1).ended is Exit.COMPLETED
    assert mode(open_bench.folder / "17" / "run") == (0o700, OWNER)
    assert mode(open_bench.folder / "17" / "output") == (0o700, "root")


def test_a_notice_by_root_is_the_users_to_read(umask: int, open_bench: Bench) -> None:
    bench = open_bench
    bench.launch(
        17, 1, shell("while ! cat $MUSTER_RUN_DIR/notice.json; do :; done"), user=OWNER, directory=Path("/")
    )
    bench.supervisor(17, 1)
    run_dir = bench.folder / "17" / "run"
    give_notice(run_dir, 1, stop=True)
    assert bench.end(17, 1).ended is Exit.COMPLETED
    assert '"stop": true' in bench.output(17)
    assert mode(run_dir / "notice.json")[1] == OWNER
    assert not can(STRANGER, "cat", run_dir / "notice.json")


SAVE, LOAD = shell("echo $0 > $MUSTER_RUN_DIR/checkpoint"), shell("cat $MUSTER_RUN_DIR/checkpoint")


def test_a_job_never_resumes_from_a_stranger_of_its_number(bench: Bench) -> None:
    """As where a store came back from a backup, and numbers come again."""
    for epoch, whose in ((1, "ann 1.5"), (4, "ann 1.5")):
        bench.launch(17, epoch, SAVE if epoch == 1 else LOAD, whose=whose)
        assert bench.end(17, epoch).ended is Exit.COMPLETED
        bench.engine.forget(17, epoch)
    for whose in ("bob 1.5", "ann 2.5"):
        bench.launch(17, 1, LOAD, whose=whose)
        assert bench.end(17, 1).ended is Exit.FAILED
        assert "No such file" in bench.output(17)
        bench.engine.forget(17, 1)
    assert (bench.folder / "17.old-1" / "run" / "checkpoint").exists()
    assert (bench.folder / "17.old-2" / "output" / "0.log").exists()


def test_a_folder_from_before_folders_knew_whose_they_are(bench: Bench) -> None:
    for job in (1, 2):
        bench.launch(job, 1, SAVE)
        bench.end(job, 1)
        (bench.folder / str(job) / "whose").unlink()
    bench.launch(1, 2, LOAD, whose="ann 1.5")
    assert bench.end(1, 2).ended is Exit.COMPLETED
    bench.engine.forget(2, 1)
    bench.launch(2, 1, LOAD, whose="ann 1.5")
    assert bench.end(2, 1).ended is Exit.FAILED


def test_a_newer_start_from_before_a_backup_counts_as_lost(bench: Bench) -> None:
    """The store has forgotten starts that its jobs' folders remember: the epochs catch up."""
    bench.launch(17, 5, ["true"], whose="ann 1.5")
    bench.end(17, 5)
    bench.engine.forget(17, 5)
    for epoch, ended in ((4, Exit.LOST), (5, Exit.COMPLETED)):
        bench.launch(17, epoch, ["true"], whose="ann 1.5")
        assert bench.end(17, epoch).ended is ended
