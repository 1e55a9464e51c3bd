"""Somebody sets the clock of the daemon's machine while jobs run."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from muster.service.client import UnixConnection
from muster.service.home import socket_path

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


def test_no_time_is_below_zero_after_a_clock_was_set_back() -> None:
    """Of a job that runs and one that waits since a time that is yet to come, by the clock of a new daemon."""
    with open_folder(0o711) as folder:
        home = folder / "home"
        person = Person()
        person = replace(person, environment={**person.environment, **clock_ahead(folder, 0)})
        serve = ("--fake-nodes", "1x1gpu")
        with person.serves(home, *serve):
            for _ in range(2):
                assert not person.types(home, "submit", "--steps", "100000000", "--", "true").returncode
            until(lambda: "has run for" in person.types(home, "why", "1").stdout, "its start")
        set_clock(folder, -HOUR)
        with person.serves(home, *serve):
            shown = [person.types(home, "why", str(job)).stdout for job in (1, 2)]
            connection = UnixConnection(socket_path(home))
            connection.request("GET", "/jobs/1")
            shown.append(connection.getresponse().read().decode())
            connection.close()
    for text, words in zip(shown, ("has run for", "has waited", "1 GPU on node-0 for"), strict=True):
        assert words in text
        assert not re.search(r"(for|waited)\s-", text), text


def test_a_clock_that_was_set_forwards_makes_no_job_older() -> None:
    """Of the same daemon, as on a machine that learns the date after its start."""
    with open_folder(0o711) as folder:
        home = folder / "home"
        person = Person()
        person = replace(person, environment={**person.environment, **clock_ahead(folder, 0)})
        with person.serves(home, "--fake-nodes", "1x1gpu"):
            assert not person.types(home, "submit", "--steps", "1", "--", "true").returncode
            until(lambda: "completed" in person.types(home, "status", "1").stdout, "its end")
            set_clock(folder, 40 * 24 * HOUR)
            done = person.types(home, "prune", "--before", "30d")
            assert done.stdout.startswith("Pruned 0 jobs "), done
            assert person.types(home, "prune", "--before", "0d").stdout.startswith("Pruned 1 job ")
