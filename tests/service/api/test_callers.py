"""Who is let in, and what he may: by the kernel's word, and by tokens."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.problems import InputError
from muster.service import accounts, callers, sockets, tokens
from muster.service.callers import check_bind
from muster.service.engines import EngineCapabilities
from muster.service.home import job_folder, store_url
from muster.service.store import Store
from muster.service.store.rows import TokenRow
from muster.service.tokens import KnownTokens, LivingTokens, create_token, hash_of

from ..serving import Answer, Serving, serving
from .test_routes import JOB

ME = pwd.getpwuid(os.geteuid()).pw_name
NOBODY = "nobody"
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
    ("GET", "/v1/tokens"),
    ("POST", "/v1/tokens"),
    ("POST", "/v1/tokens/1/revoke"),
    ("GET", "/v1/models"),
]


def test_the_daemons_own_account_is_an_operator(api: Serving) -> None:
    assert api.ask("POST", "/v1/jobs", JOB).status == 201
    assert api.ask("GET", "/v1/jobs/1").json["user"] == ME
    assert api.ask("GET", "/v1/tokens").status == 200


def by_nobody(api: Serving, method: str, path: str, body: str = "") -> tuple[int, str]:
    """A request of another account of this machine."""
    code = (
        "import http.client, sys\n"
        "connection = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n"
        "connection.request(*sys.argv[2:4], sys.argv[4], {'Content-Type': 'application/json'})\n"
        "answer = connection.getresponse()\n"
        "print(answer.status, answer.read().decode())"
    )
    # Its own copy of Python, as others may not read root's.
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    command = [python, "-I", "-c", code, str(api.port), method, path, body]
    done = subprocess.run(command, user=NOBODY, capture_output=True, text=True, check=True, cwd="/")
    status, _, text = done.stdout.partition(" ")
    return int(status), text


@as_root
def test_a_daemon_of_root_lets_others_in_as_themselves(api: Serving) -> None:
    job = '{"name": "job", "command": ["true"], "directory": "/"}'
    assert by_nobody(api, "POST", "/v1/jobs", job)[0] == 201
    row = api.store.job(1)
    assert row is not None
    assert row.user == NOBODY
    assert by_nobody(api, "GET", "/v1/tokens")[0] == 403
    api.ask("POST", "/v1/jobs", JOB)
    assert by_nobody(api, "POST", "/v1/jobs/1/cancel")[0] == 200
    status, reply = by_nobody(api, "POST", "/v1/jobs/2/cancel")
    assert (status, "there is no job 2" in reply) == (404, True)
    assert api.ask("POST", "/v1/jobs/1/cancel").status == 200


@as_root
def test_a_daemon_of_somebody_lets_only_him_and_root_in(
    api: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers.os, "geteuid", lambda: pwd.getpwnam("daemon").pw_uid)
    status, reply = by_nobody(api, "GET", "/v1/jobs")
    assert status == 401
    assert "this daemon belongs to daemon" in reply
    assert api.ask("GET", "/v1/tokens").status == 200  # root
    monkeypatch.setattr(callers.os, "geteuid", lambda: pwd.getpwnam(NOBODY).pw_uid)
    assert by_nobody(api, "GET", "/v1/tokens")[0] == 200


WAYS = pytest.mark.parametrize("way", [sockets.by_netlink, sockets.by_proc])


@WAYS
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_connection_that_its_maker_has_left_is_nobodys(
    host: str, way: Callable[..., tuple[int, int] | None]
) -> None:
    """The kernel shows such a one as root's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        listener.listen()
        client = socket.create_connection(listener.getsockname()[:2])
        accepted, _ = listener.accept()
        ends = client.getsockname()[:2], listener.getsockname()[:2]
        inode = os.fstat(client.fileno()).st_ino
        assert way(*ends) == (os.geteuid(), inode)
        assert sockets.owner(*ends) == os.geteuid()
        assert way(ends[0], (host, 1)) is None
        # Nobody has connected from where somebody listens.
        assert way(ends[1], (host, 1)) is None
        client.close()
        assert way(*ends) is None
        assert sockets.owner(*ends) is None
        accepted.close()


@WAYS
def test_a_dual_stack_client_is_found(way: Callable[..., tuple[int, int] | None]) -> None:
    with socket.socket(socket.AF_INET6) as client, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
        accepted, address = listener.accept()
        inode = os.fstat(client.fileno()).st_ino
        assert way(address, listener.getsockname()) == (os.geteuid(), inode)
        accepted.close()


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Origin": "https://evil.example"}, "pages from elsewhere"),
        ({"Origin": "null"}, "pages from elsewhere"),
        ({"Host": "evil.example:80"}, "not 'evil.example'"),
        ({"Host": "127.0.0.1.evil.example"}, "not '127.0.0.1.evil.example'"),
        ({"Host": "[::1"}, "not ''"),
        ({"X-Forwarded-For": "127.0.0.1"}, "comes through a proxy"),
        ({"Forwarded": "for=127.0.0.1"}, "comes through a proxy"),
    ],
)
def test_browsers_and_proxies_do_not_lend_their_place(
    api: Serving, headers: dict[str, str], said: str
) -> None:
    refused = api.ask("GET", "/v1/jobs", headers=headers)
    assert refused.status == 401
    assert said in refused.message
    own = {"Host": f"localhost:{api.port}", "Origin": f"http://localhost:{api.port}"}
    assert api.ask("GET", "/v1/jobs", headers=own).status == 200


def make(api: Serving, user: str, role: str, token: str | None = None) -> Answer:
    return api.ask("POST", "/v1/tokens", {"user": user, "role": role}, token)


def test_from_the_first_token_on_everybody_needs_one(api: Serving) -> None:
    refused = make(api, "ann", "user")
    assert refused.status == 422
    assert "there is no operator's token yet" in refused.message
    chief = make(api, "chief", "operator").json["token"]
    for method, path in ROUTES:
        for token in (None, "", "muster_wrong", chief + "x", "\xe9"):
            refused = api.ask(method, path, {} if method == "POST" else None, token)
            assert refused.status == 401, path
            assert refused.headers["www-authenticate"] == "Bearer"
    assert api.ask("GET", "/v1/jobs", headers={"Authorization": f"Basic {chief}"}).status == 401
    assert api.ask("GET", "/v1/tokens", token=chief).status == 200
    assert api.ask("GET", "/healthz").status == api.ask("GET", "/metrics").status == 200


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
    for method, path in ROUTES[9:14]:
        refused = api.ask(
            method, path, {"user": "bob", "role": "operator"} if method == "POST" else None, bob
        )
        assert (refused.status, refused.message) == (403, "this is for operators, and bob is none")
    for token in (ann, chief):
        assert api.ask("GET", "/v1/jobs/1/logs", token=token).body == b"secret"
        assert [job["user"] for job in api.ask("GET", "/v1/jobs", token=token).json["jobs"]] == ["ann"]
    assert api.ask("POST", "/v1/jobs/1/hold", token=chief).status == 200
    assert api.ask("POST", "/v1/jobs/1/cancel", token=ann).status == 200


def test_a_revoked_token_is_refused_the_last_operators_is_kept(api: Serving) -> None:
    chief = make(api, "chief", "operator").json
    ann = make(api, "ann", "user", chief["token"]).json
    kept = api.ask("POST", f"/v1/tokens/{chief['id']}/revoke", token=chief["token"])
    assert kept.status == 409
    assert "the last operator's token" in kept.message
    assert api.ask("GET", "/v1/jobs", token=ann["token"]).status == 200
    assert api.ask("POST", f"/v1/tokens/{ann['id']}/revoke", token=chief["token"]).status == 200
    assert api.ask("GET", "/v1/jobs", token=ann["token"]).status == 401
    assert api.ask("POST", f"/v1/tokens/{chief['id']}/revoke", token=chief["token"]).status == 200
    # The kernel's word does not count again: a proxy may stand before the daemon by now.
    refused = api.ask("GET", "/v1/jobs")
    assert refused.status == 401
    assert "a token is needed, and there is none; whoever can write the store makes one" in refused.message
    back = create_token(api.store, "chief", operator=True, engine=None).text
    assert until_let_in(api, back).json["jobs"] == []


def until_let_in(api: Serving, token: str) -> Answer:
    """What another process made is known within a second."""
    deadline = time.monotonic() + 30
    while (answer := api.ask("GET", "/v1/jobs", token=token)).status == 401:
        assert time.monotonic() < deadline
    return answer


@pytest.mark.parametrize("runs_as_users", [True, False])
def test_where_all_jobs_run_as_one_account_a_token_says_so(
    api: Serving, runs_as_users: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job could read the output of others, and write into the store."""
    monkeypatch.setattr(accounts.os, "geteuid", lambda: pwd.getpwnam(NOBODY).pw_uid)
    api.status.engine_capabilities = EngineCapabilities(can_resize=True, runs_as_users=runs_as_users)
    chief = make(api, "chief", "operator").json
    assert chief["warning"] == ""
    ann = make(api, "ann", "user", chief["token"]).json
    assert ("all jobs run as nobody here" in ann["warning"]) is runs_as_users


@pytest.mark.parametrize("runs_as_users", [True, False])
def test_a_token_is_for_whom_this_machine_knows(
    api: Serving, runs_as_users: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a job runs as its owner, an owner who has no account here could run none."""
    monkeypatch.setattr(accounts.os, "geteuid", lambda: 0)
    api.status.engine_capabilities = EngineCapabilities(can_resize=True, runs_as_users=runs_as_users)
    chief = make(api, "no-such-chief", "operator").json  # He may look, and steer.
    assert ("no account no-such-chief" in chief["warning"]) is runs_as_users
    refused = make(api, "no-such-user", "user", chief["token"])
    assert refused.status == (422 if runs_as_users else 201)
    if runs_as_users:
        assert refused.json["error"]["problems"][0]["column"] is None
        assert "this machine has no account no-such-user, so no job of that name could run" in refused.message
    assert make(api, NOBODY, "user", chief["token"]).json["warning"] == ""


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0b", "\ud800"])
def test_a_name_is_looked_at_whoever_makes_a_token(api: Serving, name: str) -> None:
    with pytest.raises(InputError, match="allowed: a name of 1 to 200 characters"):
        create_token(api.store, name, operator=True, engine=None)
    assert make(api, name, "operator").status == 422
    assert api.store.tokens() == []


def test_elsewhere_than_on_loopback_a_daemon_needs_tokens_first() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "::ffff:127.0.0.1"):
        check_bind(host, needs_tokens=False)
    for host in ("0.0.0.0", "::", "10.0.0.1", "192.168.1.1"):
        with pytest.raises(InputError, match=r"muster token create NAME --role operator.*TLS"):
            check_bind(host, needs_tokens=False)
    with pytest.raises(InputError, match="the number of an address"):
        check_bind("example.org", needs_tokens=False)
    check_bind("0.0.0.0", needs_tokens=True)


def test_living_tokens_are_as_the_store_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process's token is known once what was read is too old; one's own change at once."""
    now = 100.0
    monkeypatch.setattr(tokens.time, "monotonic", lambda: now)
    store, other = Store.open(store_url(tmp_path)), Store.open(store_url(tmp_path))
    living = LivingTokens(store)
    assert living.known() is None
    assert living.read() == KnownTokens(False, {})
    made = create_token(other, "chief", operator=True, engine=None)
    assert living.known() == KnownTokens(False, {})
    now += 1.0
    assert living.known() is None
    assert living.read() == living.known() == KnownTokens(True, {hash_of(made.text): made.row})
    store.revoke(made.row.id)
    living.changed()
    assert living.known() is None
    assert living.read() == KnownTokens(True, {})

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
        raw.sendall(b"GET /v1/tokens HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n")
        said = b"".join(iter(lambda: raw.recv(4096), b""))
    assert said.startswith(b"HTTP/1.1 200 ")
