"""Somebody sets the clock of the daemon's machine while jobs run."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from ..another_clock import clock_ahead, set_clock
from ..engines.bench import until
from .daemons import Person, open_folder

HOUR = 3600
SERVE = ("--gpus", "1", "--cpus", "1", "--memory", "1")


@pytest.mark.parametrize("is_new", [False, True], ids=["same daemon", "new daemon"])
@pytest.mark.parametrize("by", [HOUR, -HOUR], ids=["forwards", "backwards"])
def test_a_run_is_no_longer_or_shorter(by: int, is_new: bool) -> None:
    """Its end is a time of the clock that was set, its beginning one of the clock before that.

    A daemon that starts later goes by the clock as it is then.
    """
    with open_folder(0o711) as folder:
        home, over = folder / "home", folder / "over"
        person = Person()
        person = replace(person, environment={**person.environment, **clock_ahead(folder, 0)})

        def status() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(person.types(home, "status", "1", "--json").stdout)
            return found

        with person.serves(home, *SERVE):
            before = time.monotonic()
            script = f"until [ -e {over} ]; do sleep 0.1; done"
            assert not person.types(home, "submit", "--", "sh", "-c", script).returncode
            until(lambda: status()["phase"] == "running", "its first process")
            began = time.monotonic()
            if not is_new:
                set_clock(folder, by)
                until(lambda: time.monotonic() > began + 2.0, "a run of two seconds")
                over.touch()
                until(lambda: status()["state"] == "completed", "its end")
                assert 2.0 < status()["run_seconds"] < time.monotonic() - before
        if is_new:
            set_clock(folder, by)
            with person.serves(home, *SERVE):
                over.touch()
                until(lambda: status()["state"] == "completed", "its end")
                assert 0.0 <= status()["run_seconds"] < time.monotonic() - before + max(by, 0)
