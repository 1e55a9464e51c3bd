"""Whatever users write stays text: in every page, in JSON, in the stream of events and in what jobs print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

from muster.formatting import printable
from muster.service.home import WHOSE, job_folder
from muster.service.store.rows import State, StoreChanges, Submission

from ..serving import Serving, a_request, serving
from .conftest import LogIn, logged_in
from .test_following import followed
from .test_pages import run_job

HOSTILE = (
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</main></body></html><script>alert(1)</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<SCRIPT SRC=//elsewhere.example/x.js></SCRIPT>",
    '"><img src=x onerror=alert(1)>',
    "'><img src=x onerror=alert(1)>",
    "<img src='x' onerror='alert(1)'>",
    "<img/src=x/onerror=alert(1)//",
    "' onmouseover='alert(1)",
    '" onfocus="alert(1)" autofocus="',
    '" style="background:url(javascript:alert(1))',
    "` onload=`alert(1)",
    "<svg/onload=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><title></svg><script>alert(1)</script>",
    "<math><mtext></mtext><script>alert(1)</script>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "</pre><iframe src=javascript:alert(1)>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</option></select><script>alert(1)</script>",
    "</canvas><object data=javascript:alert(1)>",
    "<base href=//elsewhere.example/>",
    "<meta http-equiv=refresh content='0;url=//elsewhere.example'>",
    "<link rel=stylesheet href=//elsewhere.example/x.css>",
    "<form action=//elsewhere.example><input name=token>",
    "<button data-post=/v1/jobs/1/cancel>press</button>",
    "<div data-part=/jobs/1/why></div>",
    "<pre data-log=//elsewhere.example></pre>",
    "<main id=content>another page</main>",
    "<!-- never closed",
    "--><b>",
    "-->\u2028<b>",
    "<![CDATA[<b>]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "&amp;lt;",
    "{{ 7 * 7 }}",
    "{{ config.__class__.__mro__ }}",
    "{% raw %}",
    "${alert(1)}",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "//elsewhere.example/",
    "?state=queued&user=root#x",
    "'; DROP TABLE jobs; --",
    "100%_\\",
    "\u202egnirts",
    "\u200b\ufeff\u2066",
    "\uff1cscript\uff1ealert(1)",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "+ADw-script+AD4-alert(1)",
)
AT_ONCE = 10
"""As many as the overview shows."""
ADDRESSES = ("src", "href", "action", "data-post", "data-log", "data-part")


class Page(HTMLParser):
    """What a browser makes of a page: elements with the names of their attributes, addresses, and texts."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))
        for name, value in attrs:
            self.texts.append(value or "")
            if name in ADDRESSES:
                self.addresses.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self.elements.append(("/", tag))

    def handle_comment(self, data: str) -> None:
        self.elements.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.elements.append(("declaration", decl))

    def unknown_decl(self, data: str) -> None:
        self.elements.append(("declaration", data))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def fill(api: Serving, texts: Sequence[str]) -> list[int]:
    """A job that runs and one that waits for each text, with the text wherever one can be written."""
    machine, *_ = api.status.cluster.nodes
    nodes = tuple(replace(machine, name=f"node {text}") for text in texts)
    api.status.cluster = replace(api.status.cluster, name=texts[0], nodes=nodes)
    jobs = []
    for text in texts:
        asked = {"name": text, "model": text, "tenant": text, "command": (text,), "environment": {"T": text}}
        both = [Submission(text, a_request().model_copy(update=asked)) for _ in range(2)]
        running, waiting = api.store.submit(both)
        run_job(api, running, node=f"node {text}")
        changes = StoreChanges()
        changes.job(waiting, message=text)
        changes.event(running, api.store.now(), text, text)
        with api.store.claimed():
            api.store.commit(changes)
        jobs += [running, waiting]
    return jobs


def forget(api: Serving, jobs: Sequence[int]) -> None:
    """Remove jobs, so that the next ones have the pages for themselves."""
    changes = StoreChanges()
    for job in jobs:
        changes.job(job, state=State.CANCELLED, finished=1.0)
    with api.store.claimed():
        api.store.commit(changes)
    api.store.forget(jobs)


def pages(api: Serving, texts: Sequence[str], log_in: LogIn) -> Iterator[tuple[str, str | None, Page]]:
    """Every page that shows some of the texts: which one, the text that it must show, and the page."""
    root = log_in("root")

    def shown(path: str) -> Page:
        answer = api.ask("GET", path, headers=root, tcp=True)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        return Page(answer.body.decode())

    for first in range(0, len(texts), AT_ONCE):
        some = texts[first : first + AT_ONCE]
        jobs = fill(api, some)
        yield "/timeline", None, shown("/timeline")
        for path in (
            "/",
            "/users",
            "/jobs",
            *(f"/nodes?by={by}" for by in ("user", "tenant", "model", "name")),
        ):
            page = shown(path)
            for text in some:
                yield path, text, page
        for at, text in enumerate(some):
            job = jobs[2 * at + at % 2]
            yield f"/jobs/{job}", text, shown(f"/jobs/{job}")
        for text in some[:2]:
            yield "/jobs, searched", text, shown(f"/jobs?{urlencode({'text': text, 'user': text})}")
        forget(api, jobs)


def test_hostile_texts_add_nothing_to_a_page(tmp_path: Path) -> None:
    found: list[list[tuple[str, ...]]] = []
    for kind, texts in (("plain", [f"text {at}" for at in range(len(HOSTILE))]), ("hostile", HOSTILE)):
        with serving(tmp_path / kind) as api:
            elements = []
            for path, text, page in pages(api, texts, partial(logged_in, api)):
                elements.append([(path,), *page.elements])
                assert text is None or any(printable(text) in one for one in page.texts), (path, text)
                assert all(re.match(r"/(?!/)|#|data:,$", one) for one in page.addresses), (path, text)
            found.append(elements)  # type: ignore[arg-type]
    plain, hostile = found
    for expected, seen in zip(plain, hostile, strict=True):
        assert seen == expected


def test_no_name_turns_the_text_beside_it(api: Serving, log_in: LogIn) -> None:
    (job,) = fill(api, ["a\u202eb"])[:1]
    for path in (f"/jobs/{job}", f"/jobs/{job}/why", "/jobs", "/"):
        page = api.ask("GET", path, headers=log_in("root"), tcp=True).body.decode()
        assert "\u202e" not in page, path
        assert "a\\u202eb" in page, path


def test_hostile_texts_come_through_the_api_unchanged(api: Serving, log_in: LogIn) -> None:
    root = log_in("root")
    with followed(api, root) as stream:
        jobs = fill(api, HOSTILE)[::2]
        for job, text in zip(jobs, HOSTILE, strict=True):
            while (change := stream.change())["kind"] != text:
                pass
            assert (change["job_id"], change["user"], change["detail"]) == (job, text, text)
    for job, text in zip(jobs, HOSTILE, strict=True):
        answer = api.ask("GET", f"/v1/jobs/{job}", headers=root, tcp=True)
        assert answer.headers["content-type"] == "application/json"
        asked = answer.json["request"]
        names = (
            answer.json["user"],
            answer.json["name"],
            asked["model"],
            asked["tenant"],
            asked["command"][0],
        )
        assert set(names) == {text}
    listed = api.ask("GET", "/v1/nodes", headers=root, tcp=True).json["nodes"]
    assert [node["name"] for node in listed] == [f"node {text}" for text in HOSTILE]


def test_hostile_output_is_never_a_page(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request())])
    row = api.store.job(job)
    assert row is not None
    output = job_folder(api.home, job) / "output"
    output.mkdir(parents=True)
    (output.parent / WHOSE).write_text(row.whose)
    written = "\n".join(HOSTILE)
    (output / "0.log").write_text(written)
    ann = log_in("ann")
    answer = api.ask("GET", f"/v1/jobs/{job}/logs", headers=ann, tcp=True)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.body.decode() == written
    assert "alert(1)" not in api.ask("GET", f"/jobs/{job}", headers=ann, tcp=True).body.decode()


def test_no_answer_can_be_framed_or_guessed(api: Serving, log_in: LogIn) -> None:
    root = log_in("root")
    api.store.submit([Submission("ann", a_request())])
    for path in (
        "/",
        "/jobs/1",
        "/jobs/1/why",
        "/jobs/999",
        "/login",
        "/v1/jobs/1",
        "/v1/jobs/999",
        "/v1/nothing",
    ):
        headers = api.ask("GET", path, headers=root, tcp=True).headers
        assert headers["x-frame-options"] == "DENY", path
        assert headers["x-content-type-options"] == "nosniff", path
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
