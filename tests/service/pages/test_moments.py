"""Every number on the pages is that of the API and of the command line at the same moment, under load."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from muster.cli.app import run
from muster.cli.service_view import state_of
from muster.formatting import amount_of, counted, duration, gpus, number, percent, thousandths
from muster.problems import InputError
from muster.service.pages.rendering import moment as moment_of
from muster.service.request import JobRequest
from muster.service.shown import gpus_of, state_since
from muster.service.store.rows import ENDED, StateRequest, Submission

from ..controller.test_fake_nodes import World
from ..serving import Serving, serving_on
from .conftest import logged_in

MOMENTS = 50
USERS = ("ann", "bob", "root")
Job = Mapping[str, Any]


class Shown(HTMLParser):
    """A page as a person reads it: its rows, cells of GPUs, facts and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.since: list[float] = []
        self.cells: dict[str, list[int | bool]] = {}
        """Of each node, for each GPU its job; else whether it is busy."""
        self._texts: list[str] = []
        self._machine = ""
        self.feed(page)
        self.text = " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        kinds = given.get("class", "").split()
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td") and self.rows:
            self.rows[-1].append("")
        elif tag == "article":
            self._machine = given["id"].removeprefix("node-")
            self.cells[self._machine] = []
        elif "cell" in kinds:
            job = given.get("href", "").removeprefix("/jobs/")
            self.cells[self._machine].append(int(job) if job else "busy" in kinds)
        if "data-since" in given:
            self.since.append(float(given["data-since"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self.rows.append([])

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]} {data}".split())

    def body_rows(self, columns: int) -> list[list[str]]:
        """Rows of tables without their headings."""
        headings = ("Job", "User")
        return [row[:columns] for row in self.rows if row and row[0] not in headings]


def some_load(world: World, chance: random.Random, draining: set[str]) -> None:
    """What owners and operators do between two moments, and some turns of the daemon."""
    for _ in range(chance.randrange(3)):
        size = chance.choice((0, 1, 1, 1, 2, 4))
        asked = (
            {"cpus": 1.0, "memory_gb": 4.0}
            if size == 0
            else {"model": chance.choice((None, "gnmt", "resnet18"))}
        )
        request = JobRequest(
            name=f"job <{chance.randrange(9)}>",
            command=("true",),
            directory="/",
            gpus=size,
            gpu_share=0.5 if size == 1 and chance.random() < 0.3 else 1.0,
            steps=chance.randrange(1, 60),
            **asked,
        )
        world.store.submit([Submission(chance.choice(USERS[:2]), request)])
    living = [row.id for row in world.store.living()]
    if living and chance.random() < 0.3:
        with suppress(InputError):
            world.store.request_state(chance.choice(living), chance.choice(list(StateRequest)), "root")
    if chance.random() < 0.1:
        node = chance.choice(world.cluster.nodes).name
        draining ^= {node}
        world.store.drain(node, node in draining)
    for _ in range(chance.randrange(1, 4)):
        world.turn(chance.choice((0.3, 1.0, 4.0)))


def where(job: Job) -> str:
    held = ", ".join(f"{here['node']} ({gpus(here['gpus'])})" for here in job["holds"])
    return held or str(job["message"] or job["reason_text"])


def row_of(job: Job) -> list[str]:
    return [
        f"{job['job_id']} {job['name']}",
        job["user"],
        thousandths(gpus_of(job)),
        state_of(job),
        where(job),
    ]


def check_overview(page: Shown, top: Mapping[str, Any], mine: list[Job]) -> None:
    nodes, counts = top["nodes"], top["queue"]["counts"]
    for name, label in (("gpus", "GPUs"), ("cpus", "CPU cores"), ("memory_gb", "GB of memory")):
        held, whole = (sum(node[field] for node in nodes) for field in (f"held_{name}", name))
        assert f"{amount_of(name, held)} of {amount_of(name, whole)} {label} held" in page.text
        demand = top["queue"]["demand"][name]
        jobs = counted(demand["jobs"], "waiting job")
        more = f"{amount_of(name, demand['amount'])} more asked for by {jobs}"
        assert (more in page.text) == (demand["amount"] > 0)
    words = f"{counted(counts['running'], 'job')} running, {counted(counts['queued'], 'job')} waiting."
    assert words in page.text
    expected = []
    for state in ("running", "queued"):
        these = [job for job in mine if job["state"] == state]
        expected += these[:10]
        more = counted(len(these) - 10, f"more {'running' if state == 'running' else 'waiting'} job")
        assert (more in page.text) == (len(these) > 10)
    assert page.body_rows(5) == [row_of(job) for job in expected]
    assert page.since == [state_since(job) for job in expected]


def check_nodes(page: Shown, top: Mapping[str, Any]) -> None:
    for node in top["nodes"]:
        jobs = [next((job for job in here if job is not None), bool(here)) for here in node["gpu_jobs"]]
        assert page.cells[node["name"]] == jobs
        for name, label in (("cpus", "CPU cores"), ("memory_gb", "GB of memory")):
            assert f"{number(node[f'held_{name}'])} of {number(node[name])} {label}" in page.text
    assert page.text.count("drained") == sum(node["drained"] for node in top["nodes"])


def check_users(page: Shown, users: list[Mapping[str, Any]]) -> None:
    whole = sum(user["attained_gpu_seconds"] for user in users)
    expected = [
        [
            user["user"],
            percent(user["attained_gpu_seconds"] / whole if whole else 0.0),
            number(user["attained_gpu_seconds"] / 3600),
            number(user["running"]),
            number(user["queued"]),
            number(user["jobs"]),
            duration(user["restart_seconds"]),
        ]
        for user in users
    ]
    assert sorted(page.body_rows(7)) == sorted(expected)


def check_job(page: Shown, job: Job) -> None:
    facts = (
        f"Job {job['job_id']} {job['name']} {state_of(job)}",
        f"Steps {number(job['steps_done'])} of {number(job['steps'])}",
        f"Ran in earlier starts {duration(job['run_seconds'])}; {counted(job['starts'], 'start')} in all",
        f"Preempted {counted(job['preemptions'], 'time')}, moved {counted(job['moves'], 'time')}",
        f"Restarts took {duration(job['restart_seconds'])}",
        "not measured" if not job["steps_per_second"] else f"{number(job['steps_per_second'])} steps/s",
    )
    for fact in facts:
        assert fact in page.text
    waits = [] if job["first_start"] or job["finished"] else [job["submitted"]]
    assert page.since == waits + ([job["last_start"]] if job["state"] == "running" else [])


def check_series(page: Shown, series: Mapping[str, Any]) -> None:
    """Its speed, measured and predicted, in each start, and where its time goes."""

    def speed(value: float | None) -> str:
        return "–" if value is None else number(value)

    names = ("steps_per_second", "predicted_steps_per_second")
    known = any(start[name] for start in series["starts"] for name in names)
    newest = series["starts"][:-11:-1] if known else []
    expected = [
        [moment_of(start["since"]), thousandths(start["gpus"]), *(speed(start[name]) for name in names)]
        for start in newest
    ]
    assert [[*row[:2], *row[4:]] for row in page.rows if row and row[0].endswith("UTC")] == expected
    whole = sum(series["spent"].values())
    for name, seconds in zip(
        ("waiting or held", "restarts", "at work"), series["spent"].values(), strict=True
    ):
        assert f"{name} {percent(seconds / max(whole, 1e-9))}, {duration(seconds)}" in page.text
    for name, share in (series["shares"] or {}).items():
        assert f"{name} {percent(share)}" in page.text


def moments(api: Serving, world: World) -> Iterator[int]:
    chance, draining = random.Random(7), set[str]()
    for moment in range(MOMENTS):
        some_load(world, chance, draining)
        yield moment


def test_numbers_agree_at_fifty_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    world = World(home, "las+tune-plus")
    with serving_on(world.store, world.status, home) as api:
        browsers = {user: logged_in(api, user) for user in USERS}
        monkeypatch.setenv("MUSTER_URL", api.url)
        seen, measured = set(), 0
        for moment in moments(api, world):
            capsys.readouterr()
            assert run(["top", "--json"]) == 0
            top = json.loads(capsys.readouterr().out)
            user = USERS[moment % len(USERS)]

            def ask(path: str, user: str = user) -> Any:
                return api.ask("GET", path, headers=browsers[user], tcp=True)

            def page(path: str) -> Shown:
                return Shown(ask(path).body.decode())

            listed = sorted(ask("/v1/jobs?limit=1000").json["jobs"], key=lambda job: job["job_id"])
            nodes = ask("/v1/nodes").json
            own_top = {"nodes": nodes["nodes"], "notices": nodes["notices"], "queue": top["queue"]}
            if user == "root":
                assert own_top == top
            check_overview(page("/"), own_top, listed)
            check_nodes(page("/nodes"), own_top)
            check_users(page("/users"), ask("/v1/users").json["users"])
            jobs = page("/jobs?limit=1000")
            assert jobs.body_rows(5) == [row_of(job) for job in reversed(listed)]
            assert (f"of {counted(len(listed), 'job')}" if listed else "No job has been") in jobs.text
            for job in listed[-1:]:
                check_job(page(f"/jobs/{job['job_id']}"), job)
            for job in listed[moment % max(len(listed), 1) :][:1]:
                series = ask(f"/v1/jobs/{job['job_id']}/series").json
                check_series(page(f"/jobs/{job['job_id']}"), series)
                measured += len(series["measured"])
            seen |= {state_of(job) for job in listed} | {"preempted" for job in listed if job["preemptions"]}
        assert seen >= {"running", "queued", "held", "completed", "cancelled", "preempted", "stopping"}
        assert world.store.counts().keys() >= ENDED
        assert measured > 0
    world.store.close()
