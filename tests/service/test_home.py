"""Where a daemon keeps its own, and that one home is one daemon's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from muster.problems import BadInput
from muster.service.home import claimed, home_folder, make_home, read_endpoint, write_endpoint


def test_the_home_is_named_or_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MUSTER_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert home_folder() == tmp_path / ".local/state/muster"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert home_folder() == tmp_path / ".local/state/muster"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert home_folder() == Path("/state/muster")
    monkeypatch.setenv("MUSTER_HOME", "/own")
    assert home_folder() == Path("/own")


def test_a_home_is_nobody_elses_to_read(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    make_home(home)
    make_home(home)
    allowed = 0o711 if os.geteuid() == 0 else 0o700
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (home, *home.iterdir())} == {allowed}
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be made Muster's home: Not a directory"):
        make_home(tmp_path / "file" / "home")


def test_a_home_is_one_daemons(tmp_path: Path) -> None:
    make_home(tmp_path)
    with claimed(tmp_path):
        write_endpoint(tmp_path, "http://127.0.0.1:7")
        there = read_endpoint(tmp_path)
        assert there is not None
        assert there.pid == os.getpid()
        with (
            pytest.raises(BadInput, match=rf"serves from this folder already \(process {os.getpid()}, http"),
            claimed(tmp_path),
        ):
            pass
    with claimed(tmp_path):
        pass
