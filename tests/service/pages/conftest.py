"""An API with its pages, and sessions on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from muster.service.api.service import SESSION_COOKIE
from muster.service.tokens import create_token

from ..serving import Answer, Serving, serving

SAME_SITE = {"Sec-Fetch-Site": "same-origin"}

LogIn = Callable[[str], dict[str, str]]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path / "home") as running:
        yield running


@pytest.fixture
def log_in(api: Serving) -> LogIn:
    """Logs a user in; the headers that their browser then sends."""
    return partial(logged_in, api)


def logged_in(api: Serving, user: str) -> dict[str, str]:
    """What the browser of a user who has logged in sends."""
    token = create_token(api.store, user, operator=user == "root", engine=None).text
    answer = api.ask("POST", "/v1/session", {"token": token}, headers=SAME_SITE, tcp=True)
    return SAME_SITE | {"Cookie": cookie_of(answer)}


def cookie_of(answer: Answer) -> str:
    """The session's cookie as a browser sends it."""
    assert answer.status == 201, answer.body
    cookie, *_ = answer.headers["set-cookie"].split(";")
    assert cookie.startswith(f"{SESSION_COOKIE}=")
    return cookie
