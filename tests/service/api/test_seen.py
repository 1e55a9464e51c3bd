"""What a user learns of others: how many jobs they have, and never which."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from muster.cluster.ledger import NodeAllocation
from muster.service.daemon_status import Failing, RefusedStart
from muster.service.engines import UntakenJob
from muster.service.home import job_folder
from muster.service.store.rows import (
    AllocationInterval,
    PendingInterval,
    Phase,
    State,
    StateRequest,
    StoreChanges,
    Submission,
)
from muster.service.store.tables import STORE

from ..serving import Answer, Serving, a_request, serving

USERS = ("ann", "bob", "carl")


@dataclass(frozen=True)
class House:
    """An API with tokens, whose jobs have numbers that do not come up by chance."""

    api: Serving
    tokens: dict[str, str]

    def get(self, path: str, user: str) -> Answer:
        return self.api.ask("GET", path, token=self.tokens[user])


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving(tmp_path_factory.mktemp("seen") / "home") as api:
        tokens: dict[str, str] = {}
        for user, role in (("chief", "operator"), *((user, "user") for user in USERS)):
            made = api.ask("POST", "/v1/tokens", {"user": user, "role": role}, token=tokens.get("chief"))
            tokens[user] = made.json["token"]
        with api.store._database.writing() as connection:
            connection.execute(update(STORE).values(next_job=731_905_441))
        yield House(api, tokens)


JOBS = st.lists(
    st.tuples(
        st.sampled_from(USERS),
        st.sampled_from(State),
        st.sampled_from([None, StateRequest.CANCEL, StateRequest.HOLD]),
    ),
    min_size=2,
    max_size=10,
)


def some_jobs(
    api: Serving, wanted: Sequence[tuple[str, State, StateRequest | None]]
) -> dict[int, tuple[str, str]]:
    """Jobs of these owners in these states, each with a name that cannot be guessed: id to owner and name."""
    names = [f"secret-{secrets.token_hex(8)}" for _ in wanted]
    ids = api.store.submit(
        [
            Submission(
                user,
                a_request(
                    name=name,
                    command=(f"run-{name}",),
                    directory=f"/in-{name}",
                    environment={"N": name},
                    steps=9,
                ),
            )
            for (user, _, _), name in zip(wanted, names, strict=True)
        ]
    )
    now = api.store.now()
    changes = StoreChanges()
    free = [(node, gpu) for node in ("node-0", "node-1") for gpu in range(4)]
    for job, name, (_, state, requested) in zip(ids, names, wanted, strict=True):
        if requested is not None:
            api.store.request_state(job, StateRequest.CANCEL, "chief")
        runs = state is State.RUNNING and bool(free)
        if state is State.RUNNING and not runs:
            state = State.QUEUED
        changes.job(job, state=state, epoch=1, message=f"of {name}", reason="outranked")
        changes.event(job, now, "started", f"on {name}")
        changes.pending.append(PendingInterval(job, "outranked", {}, now - 1, now))
        if runs:
            node, gpu = free.pop()
            changes.job(job, phase=Phase.RUNNING, last_start=now)
            changes.opened.append(
                AllocationInterval(job, 1, NodeAllocation(node, (gpu,), 1.0, 1.0, 0.0), since=now)
            )
        output = job_folder(api.home, job) / "output"
        output.mkdir(parents=True)
        (output / "0.log").write_text(name)
    api.store.commit(changes)
    api.status.failing = Failing(now, 3, f"ValueError: job {ids[0]} of {names[0]}")
    api.status.decisions += 1
    return {job: (user, name) for job, name, (user, _, _) in zip(ids, names, wanted, strict=True)}


def every_path(api: Serving) -> list[str]:
    """Of all that can be read, by the description; with each way to choose among jobs."""
    described = api.ask("GET", "/v1/openapi.json").json["paths"]
    # The stream never ends; tests/service/pages/test_following.py has its tests.
    paths = [path for path, does in described.items() if "get" in does and path != "/v1/events"]
    paths += ["/v1/timeline?since=0&until=9e9", "/v1/usage?since=0"]
    choices = [f"user={user}" for user in USERS] + [f"state={state}" for state in State]
    return [
        *paths,
        *(f"{path}?{choice}" for path in ("/v1/jobs", "/v1/jobs:search", "/v1/queue") for choice in choices),
    ]


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(wanted=JOBS)
def test_no_answer_to_a_user_names_a_job_of_another(
    house: House, wanted: list[tuple[str, State, StateRequest | None]]
) -> None:
    api = house.api
    made = some_jobs(api, wanted)
    for general in every_path(api):
        for job in made if "{job_id}" in general else [0]:
            path, owner = general.replace("{job_id}", str(job)), made.get(job, ("", ""))[0]
            for user in USERS:
                answer = house.get(path, user)
                reply = json.dumps([answer.body.decode(errors="replace"), dict(answer.headers)])
                if job and owner != user:
                    assert answer.status == 404, path
                    assert reply == json.dumps(
                        [
                            house.get(path.replace(str(job), "999999999"), user)
                            .body.decode()
                            .replace("999999999", str(job)),
                            dict(answer.headers),
                        ]
                    )
                for other, (whose, name) in made.items():
                    if whose != user:
                        assert name not in reply, (path, user)
                        assert other == job or str(other) not in reply, (path, user)
    whole = house.get("/v1/jobs?limit=1000&after=1", "chief").body.decode()
    assert all(name in whole for _, name in made.values())
    api.store.commit(
        StoreChanges(
            jobs={job: {"state": State.COMPLETED} for job in made},
            closed={(job, 1): api.store.now() for job in made},
        )
    )


def test_counts_stand_where_others_are(house: House) -> None:
    api = house.api
    wanted = [
        ("ann", State.RUNNING, None), ("bob", State.RUNNING, None), ("bob", State.RUNNING, None),
        ("bob", State.QUEUED, None), ("ann", State.QUEUED, None), ("ann", State.QUEUED, None),
    ]  # fmt: skip
    made = some_jobs(api, wanted)
    api.status.failing = None
    runs, others, _, _, waits, last = made
    for job in (waits, last):
        api.store.commit(StoreChanges(jobs={job: {"reason": "no_gpus", "reason_parameters": {"needs": 1.0}}}))
    reply = house.get(f"/v1/jobs/{last}/why", "ann").json
    sentences = " ".join(reply["sentences"])
    assert f"3 of 8 GPUs are held, by job {runs} ({made[runs][1]}, 1) and 2 of others." in sentences
    kept = f"Job {runs} and 2 of others keep their GPUs until they end: not preemptible (muster status says why)."
    assert kept in sentences
    api.store.commit(StoreChanges(jobs={job: {"joined": True} for job in made}))
    api.status.decisions += 1
    assert "keep their GPUs" not in " ".join(house.get(f"/v1/jobs/{last}/why", "ann").json["sentences"])
    assert (reply["holders"], reply["holders_count"]) == ([runs], 3)
    whole = house.get(f"/v1/jobs/{last}/why", "chief").json
    assert len(whole["holders"]) == whole["holders_count"] == 3
    assert str(others) in " ".join(whole["sentences"])
    of_ann = house.get("/v1/nodes", "ann").json["nodes"]
    of_chief = house.get("/v1/nodes", "chief").json["nodes"]
    assert [job for node in of_ann for job in node["jobs"]] == [runs]
    assert sum(node["jobs_count"] for node in of_ann) == sum(len(node["jobs"]) for node in of_chief) == 3
    api.store.commit(
        StoreChanges(
            jobs={job: {"state": State.COMPLETED} for job in made}, closed={(job, 1): 1.0 for job in made}
        )
    )


def test_why_names_the_nodes_where_nothing_starts(house: House) -> None:
    api = house.api

    def why() -> list[str]:
        """Once it is known when it starts, however long that takes."""
        while (reply := house.get(f"/v1/jobs/{job}/why", "ann").json)["start_pending"]:
            pass
        sentences: list[str] = reply["sentences"]
        return sentences

    (job,) = some_jobs(api, [("ann", State.QUEUED, None)])
    api.status.failing = None
    api.store.drain("node-1", True)
    api.status.decisions += 1
    reply = why()
    assert "Of 2 nodes, node-1 is drained: nothing starts there." in reply
    api.store.drain("node-0", True)
    api.status.decisions += 1
    reply = why()
    assert "Of 2 nodes, node-0 and node-1 are drained: nothing starts there." in reply
    assert reply[-1] == "When it starts cannot be estimated: all nodes are drained or away."
    for node in ("node-0", "node-1"):
        api.store.drain(node, False)
    api.store.drain("node-0", True)
    api.status.away = frozenset(["node-0", "node-1"])
    api.status.decisions += 1
    reply = why()
    assert "Of 2 nodes, node-0 is drained, node-1 is away: nothing starts there." in reply
    assert reply[-1] == "When it starts cannot be estimated: all nodes are drained or away."
    api.store.drain("node-0", False)
    api.status.away = frozenset()
    api.store.commit(StoreChanges(jobs={job: {"state": State.COMPLETED}}))


def test_owners_see_what_the_engine_answers_to_their_jobs(house: House) -> None:
    api = house.api
    waiting, starting = some_jobs(api, [("ann", State.QUEUED, None), ("ann", State.RUNNING, None)])
    api.store.commit(StoreChanges(jobs={starting: {"phase": Phase.STARTING}}))
    api.status.refusals = {
        job: RefusedStart("no such account", 3, api.store.now()) for job in (waiting, starting)
    }
    api.status.untaken = (UntakenJob("job 17 of Slurm", "ann", "comment: found step"),)
    api.status.failing = None
    for job in (waiting, starting):
        why = " ".join(house.get(f"/v1/jobs/{job}/why", "ann").json["sentences"])
        assert f"It is not started by {api.status.engine}: no such account; tried 3 times in " in why
        assert "begins as soon as" not in why
        assert "does not wait" not in why
    mine, others = (house.get("/v1/queue", user).json for user in ("ann", "bob"))
    assert [job["refusal"].split(";")[0] for job in mine["jobs"] if job["job_id"] == waiting] == [
        f"{api.status.engine}: no such account"
    ]
    assert mine["notices"] == ["Job 17 of Slurm, of ann, is not taken: comment: found step"]
    assert others["notices"] == []
    api.status.refusals, api.status.untaken = {}, ()
    api.store.commit(StoreChanges(jobs={job: {"state": State.COMPLETED} for job in (waiting, starting)}))


def test_only_operators_see_the_error_of_a_failing_scheduler(house: House) -> None:
    api = house.api
    (job,) = some_jobs(api, [("ann", State.QUEUED, None)])
    begins = "The scheduler has failed 3 times in "
    for path, key in ((f"/v1/jobs/{job}/why", "sentences"), ("/v1/queue", "notices")):
        for user, whole in (("ann", False), ("chief", True)):
            said = house.get(path, user).json[key][0]
            assert said.startswith(begins)
            assert said.endswith("; what runs goes on, nothing new starts.")
            assert ("ValueError" in said) == whole
    api.status.failing = None
    assert house.get("/v1/queue", "ann").json["notices"] == []
    assert not house.get(f"/v1/jobs/{job}/why", "ann").json["sentences"][0].startswith(begins)
