"""Who is admitted, and what each may do: by account over the Unix socket, by token over TCP."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.problems import InputError
from muster.service.engines import EngineCapabilities
from muster.service.home import job_folder, socket_path, store_url
from muster.service.store import Store
from muster.service.store.rows import TokenRow
from muster.service.tokens import LivingTokens, create_token, hash_of

from ..accounts import UNPRIVILEGED
from ..cli.daemons import open_folder
from ..serving import Answer, Serving, serving
from .test_routes import JOB

ME = pwd.getpwuid(os.geteuid()).pw_name
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act for other accounts")

ROUTES = [
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs"),
    ("POST", "/v1/jobs:batch"),
    ("GET", "/v1/jobs/1"),
    ("POST", "/v1/jobs/1/cancel"),
    ("GET", "/v1/jobs/1/logs"),
    ("GET", "/v1/jobs/1/events"),
    ("GET", "/v1/jobs/1/why"),
    ("GET", "/v1/nodes"),
    ("POST", "/v1/nodes/node-0/drain"),
    ("GET", "/v1/export"),
    ("GET", "/v1/snapshot"),
    ("GET", "/v1/tokens"),
    ("POST", "/v1/tokens"),
    ("POST", "/v1/tokens/1/revoke"),
    ("GET", "/v1/models"),
]


def test_the_daemons_own_account_is_an_operator(api: Serving) -> None:
    assert api.ask("POST", "/v1/jobs", JOB).status == 201
    assert api.ask("GET", "/v1/jobs/1").json["user"] == ME
    assert api.ask("GET", "/v1/tokens").status == 200


def by_other_account(api: Serving, method: str, path: str, body: str = "") -> tuple[int, str]:
    """A request of another account of this machine, over the Unix socket."""
    code = (
        "import http.client, socket, sys\n"
        "connection = http.client.HTTPConnection('localhost')\n"
        "connection.sock = socket.socket(socket.AF_UNIX)\n"
        "connection.sock.connect(sys.argv[1])\n"
        "connection.request(*sys.argv[2:4], sys.argv[4], {'Content-Type': 'application/json', 'X-Peer-Uid': '0'})\n"
        "answer = connection.getresponse()\n"
        "print(answer.status, answer.read().decode())"
    )
    # Its own copy of Python, as others may not read root's.
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    command = [python, "-I", "-c", code, str(socket_path(api.home)), method, path, body]
    done = subprocess.run(command, user=UNPRIVILEGED, capture_output=True, text=True, check=True, cwd="/")
    status, _, text = done.stdout.partition(" ")
    return int(status), text


@pytest.fixture
def open_api() -> Iterator[Serving]:
    """One that other accounts can reach, as they cannot reach what is in a test's own folder."""
    with open_folder(0o711) as folder, serving(folder / "home") as running:
        yield running


@as_root
def test_a_daemon_of_root_lets_others_in_as_themselves(open_api: Serving) -> None:
    job = '{"name": "job", "command": ["true"], "directory": "/"}'
    assert by_other_account(open_api, "POST", "/v1/jobs", job)[0] == 201
    row = open_api.store.job(1)
    assert row is not None
    assert row.user == UNPRIVILEGED
    assert by_other_account(open_api, "GET", "/v1/tokens")[0] == 403
    open_api.ask("POST", "/v1/jobs", JOB)
    assert by_other_account(open_api, "POST", "/v1/jobs/1/cancel")[0] == 200
    status, reply = by_other_account(open_api, "POST", "/v1/jobs/2/cancel")
    assert (status, "there is no job 2" in reply) == (404, True)
    assert open_api.ask("POST", "/v1/jobs/1/cancel").status == 200


@as_root
def test_a_daemon_of_a_user_lets_only_it_and_root_in(
    open_api: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam("daemon").pw_uid)
    status, reply = by_other_account(open_api, "GET", "/v1/jobs")
    assert status == 401
    assert "this daemon belongs to daemon" in reply
    assert open_api.ask("GET", "/v1/tokens").status == 200  # root
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam(UNPRIVILEGED).pw_uid)
    assert by_other_account(open_api, "GET", "/v1/tokens")[0] == 200


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_a_proxy_at_the_socket_does_not_lend_its_account(api: Serving, name: str) -> None:
    refused = api.ask("GET", "/v1/jobs", headers={name: "127.0.0.1"})
    assert (refused.status, "a token is needed" in refused.message) == (401, True)
    made = make(api, ME, "operator").json["token"]
    assert api.ask("GET", "/v1/jobs", token=made, headers={name: "127.0.0.1"}).status == 200


def test_tcp_without_a_token_is_refused_on_every_route(api: Serving) -> None:
    """Also before the first token, and whatever the client says of itself."""
    for method, path in ROUTES:
        for headers in ({}, {"X-Peer-Uid": "0", "peer_uid": "0", "Cookie": "uid=0"}):
            refused = api.ask(method, path, {} if method == "POST" else None, headers=headers, tcp=True)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer"), path
    for path in ("/healthz", "/metrics", "/v1/openapi.json"):
        assert api.ask("GET", path, tcp=True).status == 200


def test_a_token_counts_more_than_the_account_at_the_socket(api: Serving) -> None:
    ann = make(api, "ann", "user").json["token"]
    assert api.ask("POST", "/v1/jobs", JOB, ann).status == 201
    row = api.store.job(1)
    assert row is not None
    assert row.user == "ann"
    assert api.ask("GET", "/v1/tokens", token=ann).status == 403
    assert api.ask("GET", "/v1/jobs", token="muster_wrong").status == 401
    assert api.ask("GET", "/v1/tokens").status == 200


def make(api: Serving, user: str, role: str, token: str | None = None) -> Answer:
    return api.ask("POST", "/v1/tokens", {"user": user, "role": role}, token)


def test_only_a_token_in_use_is_let_in_over_tcp(api: Serving) -> None:
    chief = make(api, "chief", "operator").json["token"]
    for method, path in ROUTES:
        for token in (None, "", "muster_wrong", chief + "x", "\xe9"):
            body: dict[str, object] | None = {} if method == "POST" else None
            assert api.ask(method, path, body, token, tcp=True).status == 401, path
    basic = {"Authorization": f"Basic {chief}"}
    assert api.ask("GET", "/v1/jobs", headers=basic, tcp=True).status == 401
    assert api.ask("GET", "/v1/tokens", token=chief, tcp=True).status == 200


def test_only_hashes_are_kept(api: Serving) -> None:
    made = make(api, "chief", "operator").json
    listed = api.ask("GET", "/v1/tokens", token=made["token"])
    assert listed.json["tokens"] == [{key: made[key] for key in ("id", "user", "role", "created", "revoked")}]
    api.store.close()
    kept = b"".join(file.read_bytes() for file in api.home.glob("muster.db*"))
    assert made["token"].encode() not in kept
    assert made["token"].removeprefix("muster_").encode() not in kept
    assert hash_of(made["token"]).encode() in kept


def test_one_user_can_neither_see_nor_steer_anothers_jobs(api: Serving) -> None:
    chief = make(api, "chief", "operator").json["token"]
    ann, bob = (make(api, user, "user", chief).json["token"] for user in ("ann", "bob"))
    assert api.ask("POST", "/v1/jobs", JOB, ann).json == {"job_id": 1}
    output = job_folder(api.home, 1) / "output"
    output.mkdir(parents=True)
    (output / "0.log").write_text("secret")
    before = api.store.job(1)
    for method, what in (
        *(("GET", what) for what in ("", "/logs", "/events", "/why")),
        *(("POST", what) for what in ("/cancel", "/hold", "/release")),
    ):
        others = api.ask(method, f"/v1/jobs/1{what}", token=bob)
        absent = api.ask(method, f"/v1/jobs/2{what}", token=bob)
        assert others.status == absent.status == 404
        assert others.body.replace(b"1", b"2") == absent.body
    assert api.store.job(1) == before
    for query in ("", "?user=ann", "?name=job"):
        assert api.ask("GET", f"/v1/jobs{query}", token=bob).json["jobs"] == []
    for method, path in ROUTES[9:15]:
        body = {"user": "bob", "role": "operator"} if (method, path) == ("POST", "/v1/tokens") else None
        refused = api.ask(method, path, body, bob)
        assert (refused.status, refused.message) == (403, "this is for operators, and bob is none")
    for token in (ann, chief):
        assert api.ask("GET", "/v1/jobs/1/logs", token=token).body == b"secret"
        assert [job["user"] for job in api.ask("GET", "/v1/jobs", token=token).json["jobs"]] == ["ann"]
    assert api.ask("POST", "/v1/jobs/1/hold", token=chief).status == 200
    assert api.ask("POST", "/v1/jobs/1/cancel", token=ann).status == 200


def test_a_revoked_token_ends_at_once(api: Serving) -> None:
    chief = make(api, "chief", "operator").json
    ann = make(api, "ann", "user", chief["token"]).json
    assert api.ask("GET", "/v1/jobs", token=ann["token"]).status == 200
    assert api.ask("POST", f"/v1/tokens/{ann['id']}/revoke", token=chief["token"]).status == 200
    assert api.ask("GET", "/v1/jobs", token=ann["token"]).status == 401
    assert api.ask("POST", f"/v1/tokens/{chief['id']}/revoke", token=chief["token"]).status == 200
    refused = api.ask("GET", "/v1/jobs", token=chief["token"], tcp=True)
    assert (refused.status, refused.message) == (401, "this token is unknown or was revoked")
    back = create_token(api.store, "chief", operator=True, engine=None).text
    assert until_let_in(api, back).json["jobs"] == []


def until_let_in(api: Serving, token: str) -> Answer:
    """What another process made is known within a second."""
    deadline = time.monotonic() + 30
    while (answer := api.ask("GET", "/v1/jobs", token=token, tcp=True)).status == 401:
        assert time.monotonic() < deadline
    return answer


@pytest.mark.parametrize("runs_as_users", [True, False])
def test_where_all_jobs_run_as_one_account_a_token_says_so(
    api: Serving, runs_as_users: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job could read the output of others, and write into the store."""
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam(UNPRIVILEGED).pw_uid)
    api.status.engine_capabilities = EngineCapabilities(can_resize=True, runs_as_users=runs_as_users)
    chief = make(api, "chief", "operator").json
    assert chief["warning"] == ""
    ann = make(api, "ann", "user", chief["token"]).json
    assert (f"all jobs run as {UNPRIVILEGED} here" in ann["warning"]) is runs_as_users


@pytest.mark.parametrize("runs_as_users", [True, False])
def test_a_token_is_for_whom_this_machine_knows(
    api: Serving, runs_as_users: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a job runs as its owner, an owner who has no account here could run none."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    api.status.engine_capabilities = EngineCapabilities(can_resize=True, runs_as_users=runs_as_users)
    chief = make(api, "no-such-chief", "operator").json  # He may look, and steer.
    assert ("no account no-such-chief" in chief["warning"]) is runs_as_users
    refused = make(api, "no-such-user", "user", chief["token"])
    assert refused.status == (422 if runs_as_users else 201)
    if runs_as_users:
        assert refused.json["error"]["problems"][0]["column"] is None
        assert "this machine has no account no-such-user, so no job of that name could run" in refused.message
    assert make(api, UNPRIVILEGED, "user", chief["token"]).json["warning"] == ""


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0b", "\ud800"])
def test_the_name_of_a_new_token_is_checked(api: Serving, name: str) -> None:
    with pytest.raises(InputError, match="allowed: a name of 1 to 200 characters"):
        create_token(api.store, name, operator=True, engine=None)
    assert make(api, name, "operator").status == 422
    assert api.store.tokens() == []


def test_living_tokens_are_as_the_store_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process's token is known once what was read is too old; one's own change at once."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    store, other = Store.open(store_url(tmp_path)), Store.open(store_url(tmp_path))
    living = LivingTokens(store)
    assert living.known() is None
    assert living.read() == {}
    made = create_token(other, "chief", operator=True, engine=None)
    assert living.known() == {}
    now += 1.0
    assert living.known() is None
    assert living.read() == living.known() == {hash_of(made.text): made.row}
    store.revoke(made.row.id)
    living.changed()
    assert living.known() is None
    assert living.read() == {}

    def meanwhile_one_is_made() -> list[TokenRow]:
        found = other.tokens()
        create_token(store, "chief", operator=True, engine=None)
        living.changed()
        return found

    monkeypatch.setattr(store, "tokens", meanwhile_one_is_made)
    living.changed()
    living.read()
    assert living.known() is None, "what was read before the change is not kept"
    store.close()
    other.close()


def test_the_loopback_address_of_ipv6_serves_too(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "::1") as api, socket.create_connection(("::1", api.port)) as raw:
        token = make(api, ME, "operator").json["token"]
        head = f"GET /v1/tokens HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\nAuthorization: Bearer {token}"
        raw.sendall(f"{head}\r\n\r\n".encode())
        said = b"".join(iter(lambda: raw.recv(4096), b""))
    assert said.startswith(b"HTTP/1.1 200 ")
