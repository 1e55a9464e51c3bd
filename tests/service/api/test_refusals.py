"""Wrong requests get an answer that says what is wrong, and nothing that is sent makes the daemon fail."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from muster.patterns import ALLOWED, CONSTRAINT, NAME
from muster.schedulers.registry import build

from ..controller.cycling_sizes import CyclingSizes
from ..serving import Serving
from .test_routes import JOB

DEEP = b'{"name": ' + b"[" * 100_000


@pytest.mark.parametrize(
    ("fields", "column", "said"),
    [
        ({"gpus": 9}, "gpus", "cluster 2x4gpu,8cpu,32gb has 8 GPUs; ask for at most so many"),
        ({"gpus": -1}, "gpus", "allowed: 0 or more"),
        ({"gpus": 0}, None, "a job without GPUs needs cpus and memory_gb; state what it needs"),
        ({"gpus": 0, "cpus": 9, "memory_gb": 1}, "cpus", "a node has at most 8 CPU cores"),
        (
            {"gpus": 0, "cpus": 1, "memory_gb": 1, "model": "resnet18"},
            None,
            "the model of a job without GPUs",
        ),
        ({"gpus": 1, "own_memory_gb": 33}, "own_memory_gb", "a node has at most 32 GB of memory"),
        (
            {"priority": 1},
            "priority",
            "ignores it; leave it out, or serve with --scheduler priority+tune-plus",
        ),
        ({"deadline_seconds": 60}, "deadline_seconds", "serve with --scheduler edf+tune-plus"),
        ({"time_limit_seconds": 0}, "time_limit_seconds", "allowed: more than 0"),
        ({"gpus": "many"}, "gpus", "allowed: a whole number"),
        ({"gpus": 2, "cpus": 17}, "cpus", "a node has at most 8 CPU cores"),
        ({"gpus": 1, "cpus": 9}, "cpus", "a node has at most 8 CPU cores"),
        ({"gpus": 1, "memory_gb": 65}, "memory_gb", "no room for so much beside 1 GPU; a node"),
        ({"gpus": 8, "memory_gb": 65}, "memory_gb", "a node has at most 32 GB of memory"),
        ({"gpus": 2, "gpu_share": 0.5}, None, "gpu_share is of one GPU, and gpus is 2"),
        ({"gpu_share": 0.0004}, "gpu_share", "allowed: 0.001 or more"),
        ({"gpus": 2, "min_gpus": 1}, "min_gpus", "leave it out, or serve with --scheduler gittins+joint"),
        ({"gpus": 2, "max_gpus": 4}, "max_gpus", "gives each job exactly its gpus; leave it out"),
        ({"gpus": 2, "max_gpus": 1}, None, "min_gpus and max_gpus are 2 and 1, and gpus is 2; allowed"),
        ({"gpus": 2, "min_gpus": 3}, None, "min_gpus and max_gpus are 3 and 2, and gpus is 2; allowed"),
        (
            {"gpus": 0, "max_gpus": 2, "cpus": 1, "memory_gb": 1},
            None,
            "gpus is 0: a job without GPUs has no sizes",
        ),
        (
            {"gpu_share": 0.5, "max_gpus": 2},
            None,
            "min_gpus and max_gpus are 1 and 2, and gpus is 0.5; allowed",
        ),
        ({"constraint": "gpu_type=A100"}, "constraint", "there are: GPU"),
        ({"constraint": "fast"}, "constraint", "allowed: gpu_type=NAME or label=NAME (several: NAME|NAME)"),
        ({"constraint": "gpu_type=gpu|h 100"}, "constraint", "without spaces"),
        ({"tenant": "vision\x85"}, "tenant", "allowed: text without control characters"),
        ({"model": "resnet19"}, "model", "did you mean resnet18"),
        ({"modle": "x"}, "modle", "did you mean model?"),
        ({"max_batch": 512}, None, "max_batch: found 512; allowed: nothing, because a job of the service"),
        ({"directory": "here"}, "directory", "allowed: an absolute path, which starts with /"),
        ({"directory": "/a/../b"}, None, "directory may not go up by '..'"),
        ({"command": []}, "command", "allowed: at least one entry"),
        ({"command": [1]}, "command.1", "allowed: a text in quotes"),
        ({"command": ["", "x"]}, "command", "found ''; allowed: a program as the first word"),
        ({"command": [" "]}, "command", "found ' '; allowed: a program"),
        ({"command": ["a", "b\0"]}, "command.2", "allowed: text without null characters"),
        ({"name": ""}, "name", "it must not be empty"),
        ({"name": "  "}, "name", "allowed: text without control characters that is not only spaces"),
        ({"name": "\u00a0\u2003"}, "name", "not only spaces"),
        ({"tenant": " "}, "tenant", "not only spaces"),
        ({"name": "\ud800"}, "name", "allowed: text without lone surrogates"),
        ({"name": "x" * 201}, "name", "allowed: at most 200 characters"),
        ({"environment": {"MUSTER_EPOCH": "1"}}, None, "Muster sets this itself"),
        ({"environment": {"A B": "1"}}, "environment.A B.[key]", "allowed: letters, digits and _"),
        ({"progress": "("}, "progress", "a regular expression with a group named step"),
        ({"stop_signal": "SIGKILL"}, "stop_signal", "'SIGTERM'"),
        ({"steps": 1e400}, "steps", "allowed: a finite number"),
        ({"priority": float("nan")}, "priority", "allowed: a finite number"),
    ],
)
def test_a_request_is_refused_with_its_field(
    api: Serving, fields: Any, column: str | None, said: str
) -> None:
    refused = api.ask("POST", "/v1/jobs", JOB | fields)
    assert refused.status == 422
    (problem,) = refused.json["error"]["problems"]
    assert problem["column"] == column
    assert said in problem["what"]
    assert api.store.jobs() == []


def test_sizes_are_taken_by_a_scheduler_that_chooses_them(api: Serving) -> None:
    """What the cluster has to hold is the smallest size, with its part of what is stated for `gpus`."""
    api.status.policy = CyclingSizes()
    sizes = {"gpus": 9, "min_gpus": 2, "max_gpus": 12, "cpus": 9, "memory_gb": 36}
    assert api.ask("POST", "/v1/jobs", JOB | sizes).status == 201
    job = api.ask("GET", "/v1/jobs/1").json
    assert (job["gpus"], job["min_gpus"], job["max_gpus"]) == (9, 2, 12)
    for more, column in (
        ({"min_gpus": 9}, "min_gpus"),
        ({"min_gpus": None}, "gpus"),
        ({"cpus": 90}, "cpus"),
        ({"memory_gb": 9 * 33}, "memory_gb"),
    ):
        refused = api.ask("POST", "/v1/jobs", JOB | sizes | more)
        assert [problem["column"] for problem in refused.json["error"]["problems"]] == [column]


def test_what_the_scheduler_honours_is_taken(api: Serving) -> None:
    """The same requests, under schedulers that use them; jobs without GPUs have no place under some."""
    without_gpus = {"gpus": 0, "cpus": 1, "memory_gb": 1}
    for scheduler, fields in (
        ("priority", {"priority": 1}),
        ("edf+tune-plus", {"deadline_seconds": 60}),
        ("gittins+joint", {"min_gpus": 1, "gpus": 2, "max_gpus": 3}),
        ("fifo", without_gpus),
    ):
        api.status.policy = build(scheduler)
        assert api.ask("POST", "/v1/jobs", JOB | fields).status == 201
    api.status.policy = build("dally")
    refused = api.ask("POST", "/v1/jobs", JOB | without_gpus)
    assert refused.json["error"]["problems"][0]["column"] == "gpus"
    assert "dally has no place for jobs without GPUs" in refused.message


@pytest.mark.parametrize("scheduler", ["slurm", "fifo+easy", "smd"])
def test_a_share_is_refused_where_gpus_are_whole(api: Serving, scheduler: str) -> None:
    api.status.policy = build(scheduler)
    refused = api.ask("POST", "/v1/jobs", JOB | {"gpu_share": 0.5})
    (problem,) = refused.json["error"]["problems"]
    assert (problem["column"], problem["found"]) == ("gpu_share", 0.5)
    assert f"{api.status.policy.name} gives whole GPUs only; leave it out, or serve" in problem["what"]
    api.status.policy = build("fifo")
    assert api.ask("POST", "/v1/jobs", JOB | {"gpu_share": 0.5}).status == 201


def test_min_gpus_is_refused_where_jobs_only_grow(api: Serving) -> None:
    api.status.policy = build("gandiva")
    assert api.ask("POST", "/v1/jobs", JOB | {"gpus": 2, "max_gpus": 3}).status == 201
    refused = api.ask("POST", "/v1/jobs", JOB | {"gpus": 2, "min_gpus": 1})
    (problem,) = refused.json["error"]["problems"]
    assert problem["column"] == "min_gpus"
    assert "gandiva gives no job fewer GPUs than its gpus; leave it out, or serve with" in problem["what"]


def test_all_that_this_cluster_cannot_do_is_reported_at_once(api: Serving) -> None:
    refused = api.ask(
        "POST", "/v1/jobs", JOB | {"gpus": 9, "cpus": 99, "memory_gb": 999, "model": "resnet19"}
    )
    columns = [problem["column"] for problem in refused.json["error"]["problems"]]
    assert columns == ["gpus", "cpus", "memory_gb", "model"]
    assert api.ask("POST", "/v1/jobs", JOB | {"cpus": 1e-320}).status == 201


def test_all_wrong_fields_are_reported_at_once(api: Serving) -> None:
    refused = api.ask("POST", "/v1/jobs:batch", {"jobs": [JOB, JOB | {"gpus": -1, "cpu": 1}, {}]})
    columns = [problem["column"] for problem in refused.json["error"]["problems"]]
    missing = [f"jobs.3.{name}" for name in ("name", "command", "directory")]
    assert columns == ["jobs.2.gpus", "jobs.2.cpu", *missing]
    assert "did you mean cpus?" in refused.message


@pytest.mark.parametrize(
    ("body", "content_type", "status", "said"),
    [
        (b"\xff", "application/json", 400, "cannot be read as JSON in UTF-8"),
        (b'{"name": "\xc3\x28"}', "application/json", 400, "cannot be read as JSON in UTF-8"),
        (DEEP, "application/json", 400, "cannot be read"),
        (b"9" * 10_000, "application/json", 400, "cannot be read"),
        (b"{", "application/json", 422, "this is not JSON"),
        (b"", "application/json", 422, "a JSON object"),
        (b"[]", "application/json", 422, "a JSON object"),
        (b"null", "application/json", 422, "a JSON object"),
        # A form that any page can send must not be taken for JSON.
        (json.dumps(JOB).encode(), "text/plain", 422, "Content-Type: application/json"),
        (json.dumps(JOB).encode(), "application/x-www-form-urlencoded", 422, "Content-Type"),
        (b'{"name": "' + b"x" * (16 * 2**20) + b'"}', "application/json", 413, "the body is too large"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    api: Serving, body: bytes, content_type: str, status: int, said: str
) -> None:
    refused = api.ask("POST", "/v1/jobs", body, headers={"Content-Type": content_type})
    assert refused.status == status
    assert said in refused.message


def test_a_body_without_a_size_is_counted(api: Serving) -> None:
    """Sent in chunks, the first of them small."""
    with socket.create_connection(("127.0.0.1", api.port), timeout=30) as raw:
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost:{api.port}\r\nContent-Type: application/json\r\n"
        raw.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n")
        with suppress(ConnectionError):
            for _ in range(17):
                raw.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")
        said = raw.recv(4096)
    assert said.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/jobs/0", 422),
        ("GET", "/v1/jobs/x", 422),
        ("GET", "/v1/jobs/9223372036854775808", 422),
        ("GET", "/v1/jobs/9223372036854775807", 404),
        ("GET", "/v1/jobs/1/logs", 404),
        ("GET", "/v1/jobs/%2e%2e/logs", 422),
        ("GET", "/v1/jobs/../../etc/passwd", 404),
        ("GET", "/v1/jobs/1%00/logs", 422),
        ("GET", "/v1/jobs?name=%00", 422),
        ("GET", "/v1/jobs?user=%ff", 200),
        ("GET", "/v1/jobs?limit=1001", 422),
        ("GET", "/v1/jobs?after=-1", 422),
        ("GET", "/v1/jobs?state=lost", 422),
        ("GET", "/v1/jobs/1/logs?rank=../../secret", 422),
        ("POST", "/v1/jobs/1/why", 405),
        ("DELETE", "/v1/jobs/1", 405),
        ("GET", "/nowhere", 404),
        ("GET", "/docs", 404),
        ("POST", "/v1/nodes/%ff%00/drain", 404),
        ("POST", "/v1/tokens/1/revoke", 404),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(api: Serving, method: str, path: str, status: int) -> None:
    answer = api.ask(method, path)
    assert answer.status == status
    if status >= 400:
        assert answer.message
        assert answer.json["error"]["status"] == status


def test_every_pattern_of_the_api_is_said_in_plain_english(api: Serving) -> None:
    described = api.ask("GET", "/v1/openapi.json").json

    def patterns(value: object) -> Iterator[str]:
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):  # type: ignore[arg-type]
            if name == "pattern" and isinstance(inner, str):
                yield inner
            elif isinstance(inner, dict | list):
                yield from patterns(inner)

    assert {NAME, CONSTRAINT} <= set(patterns(described)) <= ALLOWED.keys()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to a port that speaks none
        b"GET /v1/jobs\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_bytes_that_are_no_http_leave_the_next_request_unharmed(api: Serving, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", api.port), timeout=30) as raw:
        raw.sendall(sent)
        said = b""
        # It may hang up before it has read all: then there is nothing to shut down, or the connection is reset.
        with suppress(OSError):
            raw.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            said = b"".join(iter(lambda: raw.recv(4096), b""))
    assert said == b"" or said.startswith(b"HTTP/1.1 4")
    assert api.ask("GET", "/v1/jobs").status == 200
