"""The stream of events: complete, in order, for those who may see it, and resumable."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muster.service.store.rows import StateRequest, StoreChanges, Submission

from ..serving import Serving, a_request
from .conftest import LogIn


class Stream:
    """A browser's side of the stream."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer
        self.last_id = ""

    def block(self) -> dict[str, str]:
        """The next block of lines as fields."""
        fields: dict[str, str] = {}
        while line := self._answer.readline().decode().rstrip("\n"):
            name, _, value = line.partition(":")
            fields[name] = value.strip()
        self.last_id = fields.get("id", self.last_id)
        return fields

    def change(self) -> Any:
        """The data of the next change."""
        while (fields := self.block()).get("event") != "change":
            pass
        return json.loads(fields["data"])


@contextmanager
def followed(api: Serving, headers: dict[str, str], last_id: str | None = None) -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)
    try:
        more = {} if last_id is None else {"Last-Event-ID": last_id}
        connection.request("GET", "/v1/events", headers=headers | more)
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = Stream(answer)
        stream.block()
        yield stream
    finally:
        connection.close()


def submit(api: Serving, user: str) -> int:
    return api.store.submit([Submission(user, a_request())])[0]


def note(api: Serving, job: int, kind: str) -> None:
    changes = StoreChanges()
    changes.event(job, 1.0, kind)
    with api.store.claimed():
        api.store.commit(changes)


def test_stream_says_what_happens(api: Serving, log_in: LogIn) -> None:
    with followed(api, log_in("ann")) as stream:
        job = submit(api, "ann")
        assert (found := stream.change())["kind"] == "submitted"
        assert (found["job_id"], found["user"]) == (job, "ann")
        api.store.request_state(job, StateRequest.HOLD, "ann")
        assert stream.change() | {"time": 0.0} == {
            "job_id": job,
            "user": "ann",
            "time": 0.0,
            "kind": "hold",
            "detail": "asked by ann",
        }


def test_stream_does_not_name_jobs_of_others(api: Serving, log_in: LogIn) -> None:
    with followed(api, log_in("ann")) as stream:
        note(api, submit(api, "bob"), "started")
        assert [stream.change(), stream.change()] == [{}, {}]


def test_stream_goes_on_after_the_last_id(api: Serving, log_in: LogIn) -> None:
    root, job = log_in("root"), submit(api, "ann")
    note(api, job, "first")
    with followed(api, root) as stream:
        note(api, job, "second")
        assert stream.change()["kind"] == "second"
        seen = stream.last_id
    note(api, job, "third")
    other = submit(api, "bob")
    with followed(api, root, seen) as stream:
        assert [stream.change()["kind"] for _ in range(2)] == ["submitted", "third"]
        note(api, other, "fourth")
        assert stream.change()["kind"] == "fourth"


def test_two_followers_see_the_same(api: Serving, log_in: LogIn) -> None:
    root = log_in("root")
    with followed(api, root) as first, followed(api, root) as second:
        job = submit(api, "ann")
        assert first.change() == second.change()
        note(api, job, "started")
        assert first.change()["kind"] == second.change()["kind"] == "started"


def test_stream_needs_a_login(api: Serving) -> None:
    assert api.ask("GET", "/v1/events", tcp=True).status == 401


def test_nonsense_as_last_id_begins_now(api: Serving, log_in: LogIn) -> None:
    submit(api, "ann")
    with followed(api, log_in("root"), "9-x") as stream:
        job = submit(api, "ann")
        assert stream.change()["job_id"] == job
