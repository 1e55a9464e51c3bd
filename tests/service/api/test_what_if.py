"""What another scheduler or more nodes would have brought, asked of a daemon about what ran there."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import muster
from muster.cluster.shipped import parse_cluster
from muster.service.export import trace_of_what_ran
from muster.service.store.rows import ENDED, Submission
from muster.service.tokens import create_token

from ..controller.test_fake_nodes import World
from ..pages.conftest import logged_in
from ..serving import Serving, a_request, serving_on

JOBS = 6
MORE = "2x2gpu,6cpu,100gb"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon on which six gangs that need all GPUs ran one after the other."""
    home = tmp_path_factory.mktemp("what-if") / "home"
    world = World(home, "fifo")
    world.store.submit([Submission("ann", a_request(gpus=4, steps=30)) for _ in range(JOBS)])
    while any(row.state not in ENDED for row in world.store.jobs()):
        world.turn(5.0)
    with serving_on(world.store, world.status, home) as running:
        yield running
    world.store.close()


def wait_for_the_answer() -> None:
    for thread in threading.enumerate():
        if thread.name == "what-if":
            thread.join()


def asked(api: Serving, **question: Any) -> dict[str, Any]:
    """The question with its answer."""
    answer = api.ask("POST", "/v1/what-if", question)
    assert answer.status == 202, answer.body
    wait_for_the_answer()
    found: dict[str, Any] = api.ask("GET", f"/v1/what-if/{answer.json['number']}").json
    return found


@pytest.fixture(scope="module")
def more_nodes(api: Serving) -> dict[str, Any]:
    return asked(api, add_nodes=MORE)


def test_more_nodes_are_simulated_beside_what_there_is(api: Serving, more_nodes: dict[str, Any]) -> None:
    found = more_nodes
    assert (found["state"], found["message"], found["jobs"]) == ("done", "", JOBS)
    jobs = trace_of_what_ran(api.store)
    for run, cluster in zip(found["runs"], ("2x2gpu,6cpu,100gb", "4x2gpu,6cpu,100gb"), strict=True):
        alone = muster.simulate(jobs, parse_cluster(cluster), "fifo")
        assert run["mean_wait_seconds"] == pytest.approx(alone.summary["wait_seconds"]["mean"])
        assert run["makespan_seconds"] == pytest.approx(alone.summary["makespan_seconds"])
    # One after the other, then two at a time.
    now, more = found["runs"]
    assert more["mean_wait_seconds"] == pytest.approx(now["mean_wait_seconds"] * 6 / 15, rel=0.01)
    page = api.ask("GET", found["report"])
    assert page.status == 200
    assert b"now.toml + 2x2gpu" in page.body
    assert page.headers["content-security-policy"].startswith("sandbox allow-scripts allow-downloads;")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "nothing is different"),
        ({"scheduler": "lass"}, "las"),
        ({"scheduler": "/tmp/mine.py:Mine"}, "muster schedulers lists"),
        ({"scheduler": "mine.py:Mine"}, "muster schedulers lists"),
        ({"add_nodes": "two"}, "nodes such as 8x8h100"),
        ({"add_nodes": "2x8gpu", "days": 0}, "days"),
    ],
)
def test_what_cannot_be_asked_is_refused(api: Serving, question: Any, words: str) -> None:
    before = len(api.ask("GET", "/v1/what-if").json["what_ifs"])
    answer = api.ask("POST", "/v1/what-if", question)
    assert answer.status == 422
    assert words in answer.body.decode()
    assert len(api.ask("GET", "/v1/what-if").json["what_ifs"]) == before


def test_without_completed_jobs_there_is_no_answer(api: Serving) -> None:
    answer = api.ask("POST", "/v1/what-if", {"scheduler": "las", "days": 1e-9})
    assert (answer.status, b"has completed" in answer.body) == (409, True)


def test_one_question_is_answered_at_a_time_and_can_be_given_up(api: Serving) -> None:
    first = api.ask("POST", "/v1/what-if", {"scheduler": "srtf"})
    assert first.status == 202
    assert api.ask("POST", "/v1/what-if", {"scheduler": "las"}).status == 409
    number = first.json["number"]
    assert api.ask("DELETE", f"/v1/what-if/{number}").status == 204
    wait_for_the_answer()
    assert api.ask("GET", f"/v1/what-if/{number}").status == 404
    assert not (api.home / "what-if" / str(number)).exists()


def test_another_scheduler_is_simulated_until_it_is_forgotten(api: Serving) -> None:
    found = asked(api, scheduler="las")
    assert [run["scheduler"] for run in found["runs"]] == ["fifo+proportional+pack", "las+proportional+pack"]
    shown = api.ask("GET", "/what-if", headers=logged_in(api, "root"), tcp=True).body.decode()
    assert "las+proportional+pack" in shown
    number = found["number"]
    assert api.ask("DELETE", f"/v1/what-if/{number}").status == 204
    assert api.ask("GET", f"/v1/what-if/{number}").status == 404
    assert not (api.home / "what-if" / str(number)).exists()


def test_a_question_says_how_far_its_answer_is(api: Serving) -> None:
    number = api.ask("POST", "/v1/what-if", {"scheduler": "sjf"}).json["number"]
    headers, seen, said = logged_in(api, "root"), [0], []
    while (found := api.ask("GET", f"/v1/what-if/{number}").json)["state"] == "running":
        seen.append(found["parts_done"])
        said += re.findall(
            r"Part \d of 3: \w+", api.ask("GET", "/what-if", headers=headers, tcp=True).body.decode()
        )
    assert (found["state"], found["parts_done"]) == ("done", 3)
    assert seen == sorted(seen)
    assert {1, 2} <= set(seen)
    assert {"Part 2 of 3: simulates", "Part 3 of 3: writes"} <= set(said)
    assert api.ask("DELETE", f"/v1/what-if/{number}").status == 204


def test_a_user_who_is_no_operator_learns_nothing(api: Serving, more_nodes: dict[str, Any]) -> None:
    number = more_nodes["number"]
    token = create_token(api.store, "ann", operator=False, engine=None).text
    for method, path in (
        ("GET", ""),
        ("POST", ""),
        ("GET", f"/{number}"),
        ("GET", f"/{number}/report"),
        ("DELETE", f"/{number}"),
    ):
        sent = {"scheduler": "las"} if method == "POST" else None
        assert api.ask(method, f"/v1/what-if{path}", sent, token, tcp=True).status == 403
    page = api.ask("GET", "/what-if", headers=logged_in(api, "ann"), tcp=True)
    assert page.status == 403
    assert b"fifo+proportional+pack</td>" not in page.body
