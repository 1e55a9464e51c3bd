"""Pages that are open cost the daemon little: a body is rendered once, and not sent where it is there already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from muster.service.pages.cache import PageCache
from muster.service.pages.rendering import Body
from muster.service.store.rows import Submission

from ..serving import Serving, a_request
from .conftest import LogIn
from .test_following import followed
from .test_pages import PAGES, run_job

OPEN_PAGE = {"Muster-Part": "main"}


def counting() -> Callable[[], Body]:
    """Renders the number of its call."""
    calls = count(1)
    return lambda: Body("", str(next(calls)), b"", "")  # type: ignore[arg-type]


def test_a_body_is_rendered_once_for_all() -> None:
    cache, render = PageCache(bool), counting()

    async def asked(version: int) -> set[str]:
        found = await asyncio.gather(*(cache.body("key", version, render) for _ in range(100)))
        return {str(one.markup) for one in found}

    async def asked_twice() -> list[set[str]]:
        return [await asked(1), await asked(1), await asked(2)]

    assert asyncio.run(asked_twice()) == [{"1"}, {"1"}, {"2"}]


def test_a_body_gives_way_to_decisions() -> None:
    """It is begun when the decision is over, as the third look finds."""
    looks = count(1)
    cache = PageCache(lambda: next(looks) < 3)
    assert asyncio.run(cache.body("key", 1, counting())).markup == "1"
    assert next(looks) == 4


def test_a_failure_to_render_is_not_kept() -> None:
    cache, calls = PageCache(bool), count()

    def render() -> Body:
        if next(calls) == 0:
            raise LookupError
        return Body("", "fine", b"", "")  # type: ignore[arg-type]

    async def asked() -> None:
        with pytest.raises(LookupError):
            await cache.body("key", 1, render)
        assert (await cache.body("key", 1, render)).markup == "fine"

    asyncio.run(asked())


@pytest.mark.parametrize("path", PAGES)
def test_what_is_there_already_is_not_sent(api: Serving, log_in: LogIn, path: str) -> None:
    (job,) = api.store.submit([Submission("ann", a_request(name="first"))])
    root = log_in("root") | OPEN_PAGE
    first = api.ask("GET", path, headers=root, tcp=True)
    assert first.body.lstrip().startswith(b"<title>")
    assert b"<header>" not in first.body
    known = {"If-None-Match": first.headers["etag"]}
    if path in ("/nodes", "/timeline", "/users"):
        assert api.ask("GET", path, headers=root | known, tcp=True).status == 304
    run_job(api, job)
    assert api.ask("GET", path, headers=root | known, tcp=True).status == 200


def test_a_body_is_shared_only_with_the_same_rights(api: Serving, log_in: LogIn) -> None:
    api.store.submit(
        [Submission("bob", a_request(name="of-bob")), Submission("ann", a_request(name="of-ann"))]
    )
    root, ann, bob = (
        api.ask("GET", "/jobs", headers=log_in(user) | OPEN_PAGE, tcp=True).body
        for user in ("root", "ann", "bob")
    )
    assert [(b"of-ann" in page, b"of-bob" in page) for page in (root, ann, bob)] == [
        (True, True),
        (True, False),
        (False, True),
    ]


def test_stream_says_that_a_node_is_drained(api: Serving, log_in: LogIn) -> None:
    with followed(api, log_in("ann")) as stream:
        api.store.drain("node-0", True)
        while "event" not in (block := stream.block()):
            pass
        assert (block["event"], block["data"]) == ("state", "{}")


def test_page_of_jobs_takes_a_form_as_it_is_sent(api: Serving, log_in: LogIn) -> None:
    api.store.submit(
        [Submission("bob", a_request(name="of-bob")), Submission("ann", a_request(name="of-ann"))]
    )
    root = log_in("root")
    empty = api.ask("GET", "/jobs?text=&user=&state=&order=id&descending=true", headers=root, tcp=True)
    assert empty.status == 200
    assert b"of-ann" in empty.body
    chosen = api.ask("GET", "/jobs?state=&user=bob", headers=root, tcp=True).body
    assert b"of-ann" not in chosen
    assert b'name="user" value="bob"' in chosen
