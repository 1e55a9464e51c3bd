"""Tokens from the command line: in a store itself, and the warnings for their maker."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from muster.service.engines import EngineCapabilities
from muster.service.home import make_home, store_url
from muster.service.store import Store

from ..accounts import UNPRIVILEGED
from ..serving import Serving
from .conftest import Muster
from .daemons import only_root_can, open_folder, unprivileged_person


def test_a_token_is_made_in_a_store_that_is_there(no_daemon: Path, muster: Muster, tmp_path: Path) -> None:
    make_home(no_daemon)
    url = store_url(no_daemon)
    create = ("token", "create", "me", "--role", "operator", "--store")
    absent = muster(*create, url)
    assert (absent.status, absent.out) == (2, "")
    assert absent.err.endswith("muster.db: no store can be opened here: No such file or directory\n")
    assert not (no_daemon / "muster.db").exists()
    (tmp_path / "empty.db").touch()
    assert (
        "there is no store of Muster; muster serve makes one"
        in muster(*create, f"sqlite:///{tmp_path}/empty.db").err
    )
    (tmp_path / "other.db").write_bytes(b"something else" * 100)
    assert "this is not a store of Muster" in muster(*create, f"sqlite:///{tmp_path}/other.db").err
    assert "sqlite:///PATH or postgresql://" in muster(*create, "mysql://x/y").err

    store = Store.open(url)
    for name in ("", "two\nlines", os.fsdecode(b"\xff")):
        wrong = muster("token", "create", name, "--role", "operator", "--store", url)
        assert (wrong.status, "allowed: a name of 1 to 200 characters" in wrong.err) == (2, True)
    assert store.tokens() == []
    made = json.loads(muster(*create, url, "--json").out)
    assert (made["user"], made["role"], made["warning"]) == ("me", "operator", "")
    store.bind_engine("local")
    if os.geteuid() == 0:
        refused = muster("token", "create", "no-such-user", "--store", url)
        assert refused.err == (
            "user: found 'no-such-user'; this machine has no account no-such-user, so no job of that name could run\n"
        )
    store.close()


def test_token_create_warns_of_what_a_token_does_not_separate(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    chief = muster("token", "create", "chief", "--role", "operator")
    assert "Note: " not in chief.err
    monkeypatch.setenv("MUSTER_TOKEN", chief.out.strip())
    api.status.engine_capabilities = EngineCapabilities(can_resize=True, runs_as_users=True)
    monkeypatch.setattr("muster.service.accounts.os.geteuid", lambda: 65534)
    made = muster("token", "create", "ann")
    assert (
        f"Note: all jobs run as {UNPRIVILEGED} here, for every user, so a job can read what others' jobs wrote"
        in made.err
    )
    assert made.out.startswith("muster_")


@pytest.mark.long
@only_root_can
def test_a_daemon_that_is_not_roots_says_what_tokens_do_not_keep() -> None:
    with open_folder(0o777) as folder:
        home, other = folder / "home", unprivileged_person(folder)
        serve = ("--gpus", "1", "--scheduler", "fifo", "--listen", "127.0.0.1:0")
        with other.serves(home, *serve) as reply:
            ann = other.types(home, "token", "create", "ann")
            assert f"Note: all jobs run as {UNPRIVILEGED} here" in ann.stderr
        assert any("refuses every request until there is a token" in line for line in reply)
        with other.serves(home, *serve) as reply:
            pass
        assert any(
            f"tokens do not keep jobs apart: all jobs run as {UNPRIVILEGED} here" in line for line in reply
        )
