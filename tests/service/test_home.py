"""Where a daemon keeps its own, and that one home is one daemon's."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.problems import InputError, Unable
from muster.service import home as home_module
from muster.service.client import Client
from muster.service.home import (
    MACHINES_HOME,
    bind_store,
    claimed,
    home_folder,
    homes_to_ask,
    job_folder,
    make_home,
    newest_job_folder,
    read_endpoint,
    shut_to_others,
    write_endpoint,
)


@pytest.fixture
def of_somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Somebody's own folder, who is not root and has set nothing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MUSTER_HOME", "MUSTER_URL", "MUSTER_TOKEN", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_home_is_named_or_in_the_state_folder(of_somebody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home_folder() == of_somebody / ".local/state/muster"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert home_folder() == of_somebody / ".local/state/muster"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert homes_to_ask() == [home_folder(), MACHINES_HOME] == [Path("/state/muster"), MACHINES_HOME]
    monkeypatch.setenv("MUSTER_HOME", "/own")
    assert homes_to_ask() == [home_folder()] == [Path("/own")]


def test_a_client_asks_its_own_daemon_and_else_the_machines(
    of_somebody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines, own = of_somebody / "machine", home_folder()
    monkeypatch.setattr(home_module, "MACHINES_HOME", machines)
    make_home(own)  # as `muster profile` does
    with pytest.raises(Unable, match=f"none answers in {own} or {machines}; muster serve starts one"):
        Client.of_environment()
    make_home(machines)
    write_endpoint(machines)
    assert Client.of_environment().url == f"unix://{machines}/muster.sock"
    write_endpoint(own)
    assert Client.of_environment().url == f"unix://{own}/muster.sock"
    monkeypatch.setenv("MUSTER_HOME", str(machines))
    assert Client.of_environment().url == f"unix://{machines}/muster.sock"
    # Who names a home does not mean another one.
    monkeypatch.setenv("MUSTER_HOME", str(of_somebody / "elsewhere"))
    with pytest.raises(Unable, match=f"none answers in {of_somebody}/elsewhere; "):
        Client.of_environment()


def test_only_its_owner_can_read_a_home(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    make_home(home)
    make_home(home)
    allowed = 0o711 if os.geteuid() == 0 else 0o700
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (home, *home.iterdir())} == {allowed}
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made Muster's home: Not a directory"):
        make_home(tmp_path / "file" / "home")


def test_a_home_is_one_daemons(tmp_path: Path) -> None:
    make_home(tmp_path)
    with claimed(tmp_path):
        write_endpoint(tmp_path)
        there = read_endpoint(tmp_path)
        assert there is not None
        assert there.pid == os.getpid()
        with (
            pytest.raises(InputError, match=rf"serves from this folder already \(process {os.getpid()}\)"),
            claimed(tmp_path),
        ):
            pass
    with claimed(tmp_path):
        pass


def test_only_the_daemons_user_can_hold_its_lock(tmp_path: Path) -> None:
    make_home(tmp_path)
    lock = tmp_path / "lock"
    lock.touch(0o644)  # as older versions made it
    with claimed(tmp_path):
        assert mode(lock) == 0o600
    lock.unlink()
    with claimed(tmp_path):
        assert mode(lock) == 0o600


def test_a_planted_lock_file_is_refused(tmp_path: Path) -> None:
    make_home(tmp_path)
    lock = tmp_path / "lock"
    lock.symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match="lock: cannot be locked: "), claimed(tmp_path):
        pass
    assert not (tmp_path / "victim").exists()
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(InputError, match="lock: cannot be locked: not an ordinary file"), claimed(tmp_path):
        pass
    if os.geteuid() == 0:
        lock.unlink()
        lock.touch()
        os.chown(lock, 65534, 65534)
        refused = pytest.raises(InputError, match="lock: cannot be locked: the file belongs to another user")
        with refused, claimed(tmp_path):
            pass


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    """MUSTER_HOME=/tmp must not shut everybody out of it."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "daemon.log").touch()
    (shared / "thesis").mkdir()
    make_home(shared)
    assert mode(shared) == 0o1777
    (shared / "jobs").chmod(0o750)
    make_home(shared)
    assert mode(shared / "jobs") == 0o750
    others = tmp_path / "others"
    (others / "models").mkdir(parents=True)
    with pytest.raises(InputError, match="holds a folder jobs or models of something else"):
        make_home(others)
    assert [entry.name for entry in others.iterdir()] == ["models"]


def test_modes_do_not_hang_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        make_home(tmp_path / "home")
    finally:
        os.umask(before)
    assert {mode(folder) for folder in (tmp_path / "home", *(tmp_path / "home").iterdir())} == {
        0o711 if os.geteuid() == 0 else 0o700
    }


@pytest.fixture
def shut() -> Iterator[Path]:
    """A folder that only its owner can pass, where all can come to."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-"))
    yield folder
    shutil.rmtree(folder)


def test_a_home_under_roots_own_folders_is_shut_to_others(
    shut: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a group may pass may be meant so."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    home = shut / "home"
    make_home(home)
    assert shut_to_others(home).startswith(f"only root can pass {shut}, so jobs of others could not")
    shut.chmod(0o701)
    assert not shut_to_others(home)
    shut.chmod(0o710)
    if shut.stat().st_gid == 0:
        assert shut_to_others(home)
        os.chown(shut, -1, 4)
    assert not shut_to_others(home)
    (home / "jobs").chmod(0o700)
    assert f"can pass {home}/jobs, so" in shut_to_others(home)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not shut_to_others(home)


def test_folders_of_jobs_are_of_one_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    bind_store(home, 1.25)
    assert newest_job_folder(home) == 0
    bind_store(home, 1e9 + 0.1)  # no job has run here
    for number in (2, 17):
        job_folder(home, number).mkdir()
    assert newest_job_folder(home) == 17
    bind_store(home, 1e9 + 0.1)
    with pytest.raises(
        InputError, match=r"made on 2001-09-09 01:46:40 UTC, and this one was made on 1970-.* or move "
    ):
        bind_store(home, 1.25)
    (home / "jobs").rename(tmp_path / "old jobs")
    make_home(home)
    bind_store(home, 1.25)
