"""Who gets into the pages, with what, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.service.sessions import CODE_SECONDS, SESSION_SECONDS, LoginCodes
from muster.service.store.rows import Caller
from muster.service.tokens import create_token, hash_of

from ..serving import Serving
from .conftest import SAME_SITE, LogIn, cookie_of


def whoami(api: Serving, headers: dict[str, str]) -> int:
    return api.ask("GET", "/v1/whoami", headers=headers, tcp=True).status


def test_token_opens_a_session(api: Serving, log_in: LogIn) -> None:
    answer = api.ask("GET", "/v1/whoami", headers=log_in("ann"), tcp=True)
    assert answer.json == {"user": "ann", "role": "user"}


def test_cookie_is_kept_from_scripts_and_other_sites(api: Serving) -> None:
    token = create_token(api.store, "ann", operator=False, engine=None).text
    answer = api.ask("POST", "/v1/session", {"token": token}, headers=SAME_SITE, tcp=True)
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={SESSION_SECONDS:.0f}"} <= attributes


def test_store_has_no_secret(api: Serving, log_in: LogIn) -> None:
    secret = log_in("ann")["Cookie"].partition("=")[2]
    api.store.close()
    kept = (api.home / "muster.db").read_bytes() + b"".join(
        path.read_bytes() for path in api.home.glob("muster.db-*")
    )
    assert secret.encode() not in kept
    assert hash_of(secret).encode() in kept


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {},
    ],
)
def test_other_sites_change_nothing(api: Serving, log_in: LogIn, headers: dict[str, str]) -> None:
    cookie = {"Cookie": log_in("ann")["Cookie"]}
    for method, path in (("POST", "/v1/jobs/1/cancel"), ("DELETE", "/v1/session"), ("POST", "/v1/jobs")):
        body = b"{}" if method == "POST" else None
        answer = api.ask(method, path, body, headers=cookie | headers, tcp=True)
        assert (answer.status, answer.message) == (403, "this request comes from a page of another site")
    assert whoami(api, cookie) == 200


def test_origin_of_the_page_itself_may_change_things(api: Serving, log_in: LogIn) -> None:
    own = {"Cookie": log_in("ann")["Cookie"], "Origin": api.tcp_url}
    assert api.ask("DELETE", "/v1/session", headers=own, tcp=True).status == 204


def test_login_gives_a_new_secret_each_time(api: Serving) -> None:
    token = create_token(api.store, "ann", operator=False, engine=None).text
    planted = SAME_SITE | {"Cookie": "muster_session=planted"}
    cookies = {
        cookie_of(api.ask("POST", "/v1/session", {"token": token}, headers=planted, tcp=True))
        for _ in range(2)
    }
    assert len(cookies) == 2
    assert "muster_session=planted" not in cookies
    assert whoami(api, planted) == 401


def test_logout_ends_the_session(api: Serving, log_in: LogIn) -> None:
    session = log_in("ann")
    assert api.ask("DELETE", "/v1/session", headers=session, tcp=True).status == 204
    assert whoami(api, session) == 401


def test_session_ends_with_its_token(api: Serving, log_in: LogIn) -> None:
    session, other = log_in("ann"), log_in("bob")
    token = next(row for row in api.store.tokens() if row.user == "ann")
    api.store.revoke(token.id)
    assert (whoami(api, session), whoami(api, other)) == (401, 200)


def test_session_by_a_code_ends_with_the_token(api: Serving) -> None:
    made = create_token(api.store, "ann", operator=False, engine=None)
    code = api.ask("POST", "/v1/login-codes", headers={"Authorization": f"Bearer {made.text}"}, tcp=True).json
    late = api.ask("POST", "/v1/login-codes", headers={"Authorization": f"Bearer {made.text}"}, tcp=True).json
    opened = api.ask("POST", "/v1/session", {"code": code["code"]}, headers=SAME_SITE, tcp=True)
    session = {"Cookie": cookie_of(opened)}
    assert whoami(api, session) == 200
    assert api.ask("POST", f"/v1/tokens/{made.row.id}/revoke").status == 200
    assert whoami(api, session) == 401
    opened = api.ask("POST", "/v1/session", {"code": late["code"]}, headers=SAME_SITE, tcp=True)
    assert whoami(api, {"Cookie": cookie_of(opened)}) == 401


def test_session_opens_no_further_session(api: Serving, log_in: LogIn) -> None:
    answer = api.ask("POST", "/v1/login-codes", headers=log_in("ann"), tcp=True)
    assert (answer.status, answer.message) == (
        403,
        "a session opens no other session; use a token or an account",
    )


def test_session_ends_after_its_time(api: Serving, log_in: LogIn) -> None:
    session = log_in("ann")
    kept = api.store.session(hash_of(session["Cookie"].partition("=")[2]))
    assert kept is not None
    api.store.close_session(kept.hash)
    api.store.open_session(replace(kept, until=api.store.now()))
    assert whoami(api, session) == 401


def test_session_outlives_a_restart(api: Serving, log_in: LogIn) -> None:
    session = log_in("ann")
    api.store.close()
    assert whoami(api, session) == 200


@pytest.mark.parametrize("body", [{"token": "muster_wrong"}, {"code": "wrong"}, {"token": ""}])
def test_wrong_secret_opens_nothing(api: Serving, body: dict[str, str]) -> None:
    answer = api.ask("POST", "/v1/session", body, headers=SAME_SITE, tcp=True)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_login_needs_a_token_or_a_code(api: Serving) -> None:
    answer = api.ask("POST", "/v1/session", {}, headers=SAME_SITE, tcp=True)
    assert (answer.status, answer.message) == (422, "allowed: token or code")


def test_code_of_an_account_opens_one_session(api: Serving) -> None:
    made = api.ask("POST", "/v1/login-codes").json
    assert (made["url"], made["seconds"]) == (api.tcp_url, CODE_SECONDS)
    answer = api.ask("POST", "/v1/session", {"code": made["code"]}, headers=SAME_SITE, tcp=True)
    assert answer.json["role"] == "operator"
    assert whoami(api, {"Cookie": cookie_of(answer)}) == 200
    used = api.ask("POST", "/v1/session", {"code": made["code"]}, headers=SAME_SITE, tcp=True)
    assert used.status == 401


def test_code_is_good_for_a_minute(api: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = LoginCodes(api.store)
    begin = api.store.now()
    early, late = codes.issue(Caller("ann", False)), codes.issue(Caller("ann", False))
    monkeypatch.setattr(api.store, "now", lambda: begin + CODE_SECONDS - 1)
    assert codes.redeem(early) == Caller("ann", False)
    monkeypatch.setattr(api.store, "now", lambda: begin + CODE_SECONDS + 1)
    assert codes.redeem(late) is None


def test_code_needs_a_known_caller(api: Serving) -> None:
    assert api.ask("POST", "/v1/login-codes", tcp=True).status == 401
