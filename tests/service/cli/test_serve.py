"""A whole daemon, as its operator starts and stops it, and what it refuses to start on."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from muster.service.home import job_folder, make_home, read_endpoint, store_url
from muster.service.store import Store
from muster.service.store.rows import Submission

from ..accounts import UNPRIVILEGED
from ..engines.bench import until
from ..serving import a_request
from .conftest import Muster
from .daemons import Person, only_root_can, open_folder, unprivileged_person

FAKE = ("--scheduler", "fifo", "--fake-nodes", "1x2gpu")
REAL = ("--scheduler", "fifo", "--gpus", "1")
ME = Person()


@pytest.fixture
def home() -> Iterator[Path]:
    """Where others can pass."""
    with open_folder(0o711) as folder:
        yield folder / "home"


@pytest.fixture
def no_nohup() -> Iterator[None]:
    """A daemon ends with its terminal, even if these tests were started with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_good_order(home: Path, number: signal.Signals) -> None:
    with ME.serves(home, *FAKE, number=number) as reply:
        assert ME.types(home, "submit", "--", "true").returncode == 0
    assert read_endpoint(home) is None
    assert (json.loads(reply[-2])["event"], reply[-1]) == ("stopped", "0")


def health(home: Path) -> dict[str, Any]:
    endpoint = read_endpoint(home)
    assert endpoint is not None
    with urlopen(f"{endpoint.url}/healthz") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def hang_up(home: Path) -> None:
    endpoint = read_endpoint(home)
    assert endpoint is not None
    os.kill(endpoint.pid, signal.SIGHUP)


def test_the_log_has_no_steps_of_decisions_by_default(home: Path) -> None:
    with ME.serves(home, *FAKE) as reply:
        submitted = ME.types(home, "submit", "--", "true")
        assert submitted.returncode == 0, submitted.stderr
    assert any('"level": "info"' in line for line in reply)
    assert not any('"level": "debug"' in line for line in reply)


def test_a_hangup_reloads_the_limits(home: Path, tmp_path: Path, no_nohup: None) -> None:
    """A file with an error changes nothing and is reported; the next good one counts."""
    limits = tmp_path / "limits.toml"
    limits.write_text("[default]\nmax_priority = 3\n")
    flags = ("--scheduler", "priority", "--fake-nodes", "1x2gpu", "--limits", str(limits))
    with ME.serves(home, *flags) as reply:
        ME.types(home, "token", "create", "root", "--role", "operator", "--store", store_url(home))
        made = ME.types(home, "token", "create", "bob", "--store", store_url(home))
        token = made.stdout.strip()

        def refusal(priority: int) -> str:
            line = ("submit", "--priority", str(priority), "--", "true")
            return ME.types(home, *line, MUSTER_TOKEN=token).stderr

        assert "bob may ask for 3 at most" in refusal(4)
        limits.write_text("[default]\nmax_priority = 5\nmax_job = 1\n")
        hang_up(home)
        until(lambda: health(home)["limits_error"], "the report of an error")
        assert "bob may ask for 3 at most" in refusal(4)
        limits.write_text("[default]\nmax_priority = 5\n")
        hang_up(home)
        until(lambda: not health(home)["limits_error"], "the reload")
        assert refusal(5) == ""
        assert "bob may ask for 5 at most" in refusal(6)
    events = [json.loads(line) for line in reply if line.startswith("{")]
    (error,) = (event["error"] for event in events if event["level"] == "error")
    assert error.startswith(f"{limits}:3: default.max_job: there is no such field")
    assert reply[-1] == "0"


def test_the_end_of_its_terminal_stops_it(home: Path, no_nohup: None) -> None:
    ours, its = os.openpty()
    line, given = ME._line(home, ("serve", *FAKE))
    with subprocess.Popen(
        line,
        stdin=its,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        **given,
    ) as process:
        os.close(its)
        assert process.stdout is not None
        assert b"serves " in process.stdout.readline()
        os.close(ours)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [json.loads(line)["event"] for line in log.splitlines()][-1] == "stopped"


def test_two_engines_never_share_a_store(home: Path) -> None:
    make_home(home)
    store = Store.open(store_url(home))
    store.submit([Submission("ann", a_request())])
    store.bind_engine("local")
    before = store.living()
    said = ME.is_refused(home, *FAKE)
    assert said == (
        "--engine: found 'fake'; the jobs of this store run on engine local, and two engines never share a store. "
        "Hint: MUSTER_HOME=FOLDER keeps the jobs of the two engines apart\n"
    )
    assert (store.living(), store.engine()) == (before, "local")
    store.close()


@pytest.mark.long
def test_a_new_store_is_bound_to_the_engine_that_serves_it(home: Path) -> None:
    with ME.serves(home, *FAKE):
        pass
    store = Store.open(store_url(home))
    assert store.engine() == "fake"
    store.close()
    assert "the jobs of this store run on engine fake" in ME.is_refused(home, *REAL)


@pytest.mark.long
def test_a_home_has_the_jobs_of_one_store(home: Path, tmp_path: Path) -> None:
    with ME.serves(home, *FAKE):
        pass
    job_folder(home, 41).mkdir()
    other = f"sqlite:///{tmp_path}/other.db"
    assert "the jobs' folders here are of the store that was made on " in ME.is_refused(
        home, *FAKE, "--store", other
    )
    # As after a backup was put back: the store does not know of the newest jobs.
    with ME.serves(home, *FAKE):
        assert json.loads(ME.types(home, "submit", "--json", "--", "true").stdout) == {"job_id": 42}


@pytest.mark.long
@only_root_can
def test_root_serves_itself_alone_where_others_cannot_pass(home: Path) -> None:
    home.parent.chmod(0o701)  # Others can ask the daemon, and their jobs could not reach their folders.
    make_home(home)
    (home / "jobs").chmod(0o700)
    with open_folder(0o777) as scratch, ME.serves(home, *REAL) as reply:
        refused = unprivileged_person(scratch).types(home, "submit", "--", "true")
        taken = ME.types(home, "submit", "--", "true")
    shut = f"only root can pass {home}/jobs, so jobs of others could not reach their folders"
    assert (refused.returncode, shut in refused.stderr) == (2, True), refused.stderr
    assert taken.returncode == 0, taken.stderr
    assert shut in "".join(reply)


def test_a_missing_store_is_reported(home: Path) -> None:
    said = ME.is_refused(home, *FAKE, "--store", "sqlite:////none/x.db")
    assert said == "/none/x.db: no store can be opened here: No such file or directory\n"


@pytest.mark.long
def test_a_server_that_does_not_answer_is_reported(home: Path) -> None:
    done = ME.types(home, "serve", *FAKE, "--store", "postgresql://127.0.0.1:1/x")
    assert done.returncode == 1
    assert done.stderr.startswith("the store cannot be used: connection")


def test_wrong_flags_are_reported_together(no_daemon: Path, muster: Muster) -> None:
    wrong = "--round 0 --restart-cost -1 --fake-nodes typo --gpus 8 --listen here"
    done = muster("serve", *wrong.split())
    assert [line.partition(":")[0] for line in done.err.splitlines()] == [
        "--round",
        "--restart-cost",
        "--listen",
        "--gpus",
    ]
    assert done.status == 2
    assert "--round: found '0'; allowed: a time above 0" in done.err
    assert "--gpus: found 8; engine fake does not take this option; allowed: --fake-nodes\n" in done.err
    assert not no_daemon.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--engine locl",
            "--engine: found 'locl'; no such engine; allowed: fake, local. Hint: did you mean local?",
        ),
        ("--engine fake", "--fake-nodes: allowed: a cluster, for example 16x8gpu,24cpu,500gb"),
        ("--fake-nodes typo", "--fake-nodes: found 'typo'; a file, a line such as 16x8gpu,24cpu,500gb"),
        (
            "--engine local --fake-nodes 1x2gpu",
            "--fake-nodes: found '1x2gpu'; engine local does not take this option; allowed: --cpus, --gpus, --memory",
        ),
    ],
)
def test_a_wrong_engine_or_option_is_refused(
    no_daemon: Path, muster: Muster, flags: str, message: str
) -> None:
    done = muster("serve", *flags.split())
    assert (done.status, done.err.count("\n")) == (2, 1), done.err
    assert message in done.err
    assert not no_daemon.exists()


@pytest.mark.long
def test_tokens_may_be_needed_before_the_first_one(home: Path) -> None:
    with ME.serves(home, *FAKE, "--tokens") as reply:
        assert (
            "a token is needed, and there is none; whoever can write the store"
            in ME.types(home, "queue").stderr
        )
        made = ME.types(home, "token", "create", "me", "--role", "operator", "--store", store_url(home))
        assert ME.types(home, "queue", MUSTER_TOKEN=made.stdout.strip()).returncode == 0
        assert "a token is needed: set MUSTER_TOKEN" in ME.types(home, "queue").stderr
    assert any("every request needs a token, and there is none: muster token" in line for line in reply)
    # Once needed they are for ever.
    with ME.serves(home, *FAKE):
        assert "a token is needed: set MUSTER_TOKEN" in ME.types(home, "queue").stderr


@pytest.mark.long
@only_root_can
def test_a_daemon_of_root_serves_others_whatever_its_umask(home: Path) -> None:
    """They find it, submit, and their jobs run as them and reach their own folders alone."""
    look = "id -un; umask; echo saved > $MUSTER_RUN_DIR/mine; cat $MUSTER_RUN_DIR/../output/0.log; ls " + str(
        home
    )
    with open_folder(0o777) as scratch, ME.serves(home, *REAL, umask=0o077):
        person = unprivileged_person(scratch)
        submitted = person.types(home, "submit", "--json", "--", "/bin/sh", "-c", look)
        assert json.loads(submitted.stdout) == {"job_id": 1}, submitted.stderr
        ended = ("completed", "failed", "cancelled")
        deadline = time.monotonic() + 60
        while (job := json.loads(person.types(home, "status", "1", "--json").stdout))["state"] not in ended:
            assert time.monotonic() < deadline
        lines = person.types(home, "logs", "1").stdout.splitlines()
    assert job["user"] == UNPRIVILEGED, job
    assert lines[:2] == [UNPRIVILEGED, "0022"]
    assert ["denied" in line for line in lines[2:]] == [True, True]
    assert (job_folder(home, 1) / "run" / "mine").owner() == UNPRIVILEGED
