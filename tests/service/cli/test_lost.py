"""What commands say if the daemon, or something else in its place, does not answer as it should."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from muster.service.client import Client
from muster.service.home import job_folder, remove_endpoint, write_endpoint
from muster.service.store.rows import State, StoreChanges, Submission

from ..serving import Serving, a_request, serving
from .conftest import Muster

HANGS_UP = b""
CUT_OFF = b"HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n{"
SENDS_ON = b"HTTP/1.1 308 Permanent Redirect\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n"
NOTHING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
NO_JSON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
PROXY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>"


@contextmanager
def something_else(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that says the same to everybody and hangs up; its address, and what it was sent."""
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answers() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    asked = b""
                    while b"\r\n\r\n" not in asked:
                        asked += connection.recv(65536)
                    sent.append(asked)
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass

        thread = threading.Thread(target=answers)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", sent
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("answer", [HANGS_UP, CUT_OFF])
@pytest.mark.usefixtures("no_daemon")
def test_a_lost_answer_to_a_submission_says_the_job_may_exist(
    muster: Muster, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    with something_else(answer) as (url, sent):
        monkeypatch.setenv("MUSTER_URL", url)
        lost = muster("submit", "--name", "my job", "--", "x")
        assert (lost.status, len(sent)) == (1, 1)
        assert "may have been done all the same" in lost.err
        assert "look with muster queue --name 'my job' before you submit it again" in lost.err
        cancelled = muster("cancel", 3, 4, 5, "--json")
        assert cancelled.status == 1
        error = json.loads(cancelled.out)["error"]
        assert error["message"].startswith("jobs 3-5: the daemon at ")
        looked = muster("queue")
        assert looked.status == 1
        assert looked.err == f"the daemon at {url} hung up before its answer was whole\n"


@pytest.mark.usefixtures("no_daemon")
def test_a_command_says_that_a_daemon_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers here only after the command has said that it waits."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("MUSTER_URL", url)
        command = [sys.executable, "-m", "muster", "token", "list"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
            assert asking.stderr is not None
            connection, _ = listener.accept()
            with connection:
                said = asking.stderr.readline()
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"tokens":[]}')
                assert asking.wait(60) == 0, asking.stderr.read()
    assert said == f"The daemon at {url} has not answered yet; waiting for it.\n"


def test_a_connection_that_was_ended_while_idle_is_opened_again() -> None:
    with something_else(NOTHING) as (url, sent), Client(url) as client:
        for _ in range(3):
            assert client.post("/v1/jobs", {}) == {}
            ended = select.poll()
            ended.register(client._connection.sock, select.POLLIN)
            assert ended.poll(60_000)
    assert len(sent) == 3


@pytest.mark.usefixtures("no_daemon")
def test_a_redirect_with_a_token_is_not_followed(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    with something_else(SENDS_ON) as (url, sent):
        monkeypatch.setenv("MUSTER_URL", url)
        monkeypatch.setenv("MUSTER_TOKEN", "t")
        refused = muster("queue")
        assert refused.status == 2
        assert f"MUSTER_URL: found '{url}'; the server there redirects to https://elsewhere/" in refused.err
        assert len(sent) == 1


@pytest.mark.parametrize(
    ("answer", "said", "http_status"),
    [
        (NO_JSON, "is no daemon of Muster's", None),
        (PROXY, "the daemon answered with status 502, in no words of Muster's", 502),
    ],
)
@pytest.mark.usefixtures("no_daemon")
def test_an_answer_that_is_no_daemons_is_reported(
    muster: Muster, monkeypatch: pytest.MonkeyPatch, answer: bytes, said: str, http_status: int | None
) -> None:
    with something_else(answer) as (url, _):
        monkeypatch.setenv("MUSTER_URL", url)
        for command in (("queue",), ("logs", 1), ("submit", "--", "x"), ("nodes",)):
            failed = muster(*command)
            assert failed.status == 1
            assert said in failed.err
        assert json.loads(muster("queue", "--json").out)["error"].get("http_status") == http_status


def test_an_interrupted_submission_may_have_been_done(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "_value", interrupted)  # After the daemon has answered.
    stopped = muster("submit", "--name", "mine", "--", "x")
    assert (stopped.status, len(api.store.jobs())) == (130, 1)
    assert stopped.err == (
        "interrupted; what was asked may have been done: look with muster queue --name mine before you submit "
        "it again\n"
    )


def test_mistakes_and_failures_have_exit_statuses_of_their_own(api: Serving, muster: Muster) -> None:
    absent = muster("status", 9, "--json")
    assert (absent.status, json.loads(absent.out)["error"]["http_status"]) == (2, 404)
    api.store.close()
    (api.home / "muster.db").write_bytes(b"")
    for suffix in ("-wal", "-shm"):
        (api.home / f"muster.db{suffix}").unlink(missing_ok=True)
    failed = muster("status", 9, "--json")
    assert (failed.status, json.loads(failed.out)["error"]["http_status"]) == (1, 503)
    assert muster("cancel", 9).status == 1


def test_what_was_done_of_several_stands_in_the_one_document(api: Serving, muster: Muster) -> None:
    api.store.submit([Submission("a", a_request())] * 2)
    api.store.commit(StoreChanges(jobs={2: {"state": State.FAILED}}))
    mixed = muster("cancel", 1, 2, 9, "--json")
    assert mixed.status == 2
    document = json.loads(mixed.out)
    assert [(job["job_id"], job["state_request"]) for job in document["jobs"]] == [(1, "cancel")]
    assert "job 2: it has ended" in document["error"]["message"]
    assert "there is no job 9" in document["error"]["message"]
    assert document["error"]["http_status"] == 409


class Daemons:
    """One after the other in one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._running = ExitStack()

    def start(self) -> Serving:
        """The next one."""
        daemon = self._running.enter_context(serving(self._home))
        self._running.callback(remove_endpoint, self._home)
        write_endpoint(self._home)
        return daemon

    def stop(self) -> None:
        """The present one."""
        self._running.close()


@pytest.fixture
def daemons(no_daemon: Path) -> Iterator[Daemons]:
    one_by_one = Daemons(no_daemon)
    yield one_by_one
    one_by_one.stop()


def test_logs_are_followed_over_a_restart_of_the_daemon(
    daemons: Daemons, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = daemons.start()
    first.store.submit([Submission("a", a_request())])
    output = job_folder(first.home, 1) / "output" / "0.log"
    output.parent.mkdir(parents=True)
    output.write_text("first\n")

    def ends() -> None:
        second = daemons.start()
        output.write_text("first\nsecond\n")
        second.store.commit(StoreChanges(jobs={1: {"state": State.COMPLETED}}))

    happens = [daemons.stop, lambda: None, ends]
    monkeypatch.setattr(time, "sleep", lambda _: happens.pop(0)())
    followed = muster("logs", "-f", 1)
    assert (followed.status, followed.out, happens) == (0, "first\nsecond\n", [])
    away, back = followed.err.splitlines()
    assert "Looking for it again." in away
    assert back == "The daemon is back."


def test_the_queue_is_watched_over_a_restart_of_the_daemon(
    daemons: Daemons, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = daemons.start()
    first.store.submit([Submission("a", a_request(name="stays"))])

    def interrupt() -> None:
        raise KeyboardInterrupt

    happens = [daemons.stop, daemons.start, interrupt]
    monkeypatch.setattr("muster.cli.queue.time.sleep", lambda _: happens.pop(0)())
    watched = muster("queue", "--watch")
    assert (watched.status, happens) == (0, [])
