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
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.service.client import Client
from muster.service.home import Endpoint, job_folder, make_home, read_endpoint, socket_path, store_url
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
    assert reply[0].endswith("muster.sock; no limits, as the nodes are fake and no process runs")


def test_lines_that_are_printed_together_are_all_kept(home: Path, tmp_path: Path) -> None:
    daemon = tmp_path / "daemon"
    daemon.write_text(
        "#!/bin/sh\nprintf 'serves here\\nNote: one.\\nNote: two.\\n'\nexec tail -f /dev/null\n"
    )
    daemon.chmod(0o755)
    with Person(str(daemon)).serves(home) as reply:
        assert reply == ["serves here"]
    assert reply == ["serves here", "Note: one.", "Note: two.", str(-signal.SIGTERM)]


def health(home: Path) -> dict[str, Any]:
    with Client(f"unix://{socket_path(home)}") as client:
        found: dict[str, Any] = client.get("/healthz")
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
        token = ME.types(home, "token", "create", "bob").stdout.strip()

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
    begins = "--store: found 'postgresql://127.0.0.1:1/x'; the store cannot be used: connection failed"
    assert done.stderr.startswith(begins)


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
            "--engine: found 'locl'; no such engine; allowed: fake, local, ray, slurm. Hint: did you mean local?",
        ),
        ("--engine fake", "--fake-nodes: allowed: a cluster, for example 16x8gpu,24cpu,500gb"),
        (
            "--fake-nodes typo",
            "--fake-nodes: found 'typo'; allowed: a file, a line such as 16x8gpu,24cpu,500gb",
        ),
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


def endpoint_of(home: Path) -> Endpoint:
    found = read_endpoint(home)
    assert found is not None
    return found


def tcp_listeners(pid: int) -> list[str]:
    """The sockets of a process that listen on TCP."""
    listening = {
        fields[9]
        for family in ("tcp", "tcp6")
        for fields in map(str.split, Path("/proc/net", family).read_text().splitlines()[1:])
        if fields[3] == "0A"
    }
    opened = (str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir())
    return [name for name in opened if name.removeprefix("socket:[").removesuffix("]") in listening]


@pytest.mark.long
def test_tcp_is_served_only_if_asked_and_to_tokens(home: Path) -> None:
    with ME.serves(home, *FAKE):
        here = endpoint_of(home)
        assert (here.url, tcp_listeners(here.pid)) == (None, [])
    with ME.serves(home, *FAKE, "--listen", "localhost:0") as reply:
        here = endpoint_of(home)
        assert (here.url is not None, len(tcp_listeners(here.pid))) == (True, 1)
        url = {"MUSTER_URL": str(here.url)}
        assert "a token is needed: set MUSTER_TOKEN" in ME.types(home, "queue", **url).stderr
        made = ME.types(home, "token", "create", "me").stdout.strip()
        assert ME.types(home, "queue", MUSTER_TOKEN=made, **url).returncode == 0
        assert ME.types(home, "queue").returncode == 0, "the account still counts at the socket"
    assert any("refuses every request until there is a token" in line for line in reply)


def test_other_machines_send_tokens_in_the_clear(home: Path) -> None:
    with ME.serves(home, *FAKE, "--listen", "0.0.0.0:0") as reply:
        pass
    assert any("tokens travel in the clear to http://0.0.0.0:" in line for line in reply)


def test_another_scheduler_says_what_it_ignores(home: Path) -> None:
    """A job keeps its place in the queue, and its owner and the operator know what has no effect any more."""
    nodes = ("--fake-nodes", "1x2gpu,8cpu,64gb")
    with ME.serves(home, "--scheduler", "priority", *nodes) as reply:
        for flags in ([], ["--priority", "5", "--cpus", "2"], ["--priority", "7"]):
            done = ME.types(home, "submit", "--hold", *flags, "--steps", "100000", "--", "true")
            assert done.returncode == 0, done.stderr
    assert not any("ignores" in line for line in reply)
    said = (
        "As to its priority (5.0): gandiva ignores it. Hint: `muster cancel 2` and submit it again without priority, "
        "or ask the operator to serve with --scheduler priority+tune-plus."
    )
    with ME.serves(home, "--scheduler", "gandiva", *nodes) as reply:
        assert said in " ".join(ME.types(home, "why", "2").stdout.split()), "while it is held"
        assert ME.types(home, "release", "2").returncode == 0
        until(lambda: "running" in ME.types(home, "status", "2").stdout, "that it runs")
        assert said in " ".join(ME.types(home, "why", "2").stdout.split())
    words = (
        "gandiva ignores what jobs ask for that were submitted before it served: priority of 2 jobs, cpus of 1 job. "
        "Hint: muster why 2 says which scheduler does not"
    )
    assert any(words in line for line in reply), reply


@pytest.mark.long
def test_a_killed_daemon_leaves_no_way_closed(home: Path) -> None:
    """Its socket file stays, commands say that no daemon answers, and the next daemon takes its place."""
    with ME.serves(home, *FAKE, number=signal.SIGKILL):
        pass
    assert socket_path(home).is_socket()
    dead = ME.types(home, "queue")
    assert (dead.returncode, "none answers at unix://" in dead.stderr) == (1, True), dead.stderr
    with ME.serves(home, *FAKE):
        assert ME.types(home, "queue").returncode == 0
        said = ME.is_refused(home, *FAKE)
        assert f"a daemon serves from this folder already (process {endpoint_of(home).pid})" in said
        assert ME.types(home, "queue").returncode == 0, "the refused one has left the socket alone"
    assert not socket_path(home).exists()


@pytest.mark.long
def test_a_home_with_a_long_path_is_served(home: Path) -> None:
    deep = home / ("x" * 100) / "home"
    with ME.serves(deep, *FAKE):
        assert ME.types(deep, "submit", "--", "true").returncode == 0


def test_a_planted_file_in_place_of_the_socket_is_refused(home: Path) -> None:
    make_home(home)
    socket_path(home).symlink_to("/etc/passwd")
    said = ME.is_refused(home, *FAKE)
    assert said == f"{socket_path(home)}: this is not a socket. Hint: remove it, the daemon makes its own\n"


@pytest.mark.long
@only_root_can
def test_a_daemon_of_a_user_serves_no_other_account() -> None:
    with open_folder(0o777) as folder:
        home, other = folder / "home", unprivileged_person(folder)
        third = replace(other, account={**other.account, "user": "daemon", "group": "daemon"})
        with other.serves(home, *FAKE):
            assert ME.types(home, "queue").returncode == 0
            assert other.types(home, "submit", "--", "true").returncode == 0
            home.chmod(0o755)
            refused = third.types(home, "queue")
            assert (refused.returncode, "this account may not use the daemon" in refused.stderr) == (1, True)
            socket_path(home).chmod(0o666)
            refused = third.types(home, "queue")
            assert (refused.returncode, f"this daemon belongs to {UNPRIVILEGED}" in refused.stderr) == (
                2,
                True,
            )


@pytest.mark.long
@only_root_can
def test_a_daemon_of_root_serves_others_whatever_its_umask(home: Path) -> None:
    """They find it, submit, and their jobs run as them and reach their own folders alone."""
    look = "id -un; umask; echo saved > $MUSTER_RUN_DIR/mine; cat $MUSTER_RUN_DIR/../output/0.log; ls " + str(
        home
    )
    with open_folder(0o777) as scratch, ME.serves(home, *REAL, umask=0o077):
        other = unprivileged_person(scratch)
        submitted = other.types(home, "submit", "--json", "--", "/bin/sh", "-c", look)
        assert json.loads(submitted.stdout) == {"job_id": 1}, submitted.stderr
        ended = ("completed", "failed", "cancelled")
        deadline = time.monotonic() + 60
        while (job := json.loads(other.types(home, "status", "1", "--json").stdout))["state"] not in ended:
            assert time.monotonic() < deadline
        lines = other.types(home, "logs", "1").stdout.splitlines()
    assert job["user"] == UNPRIVILEGED, job
    assert lines[:2] == [UNPRIVILEGED, "0022"]
    assert ["denied" in line for line in lines[2:]] == [True, True]
    assert (job_folder(home, 1) / "run" / "mine").owner() == UNPRIVILEGED
