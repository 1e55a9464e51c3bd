"""What each route does, over a real connection."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.cluster.ledger import NodeAllocation
from muster.report.record import read_record
from muster.schedulers.reasons import REASONS
from muster.service.daemon_status import SCHEDULER, STORE
from muster.service.engines import OutputPiece, OutputRequest
from muster.service.engines.output_reader import OutputReader
from muster.service.home import job_folder, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import AllocationInterval, Phase, State, StateRequest, StoreChanges, Submission

from ..serving import Serving, serving

JOB = {"name": "job", "command": ["true"], "directory": "/"}


def submitted(api: Serving, **fields: Any) -> int:
    answer = api.ask("POST", "/v1/jobs", JOB | fields)
    assert answer.status == 201, answer.body
    return int(answer.json["job_id"])


def test_a_submitted_job_is_durable_and_wakes_the_controller(api: Serving) -> None:
    answer = api.ask("POST", "/v1/jobs", JOB)
    assert (answer.status, answer.json) == (201, {"job_id": 1})
    assert api.status._something_new.is_set()
    other = Store.open(store_url(api.home))
    assert other.job(1) == api.store.job(1)
    other.close()


def test_a_batch_is_taken_whole_or_not_at_all(api: Serving) -> None:
    good, bad = JOB | {"name": "good"}, JOB | {"gpus": 99}
    refused = api.ask("POST", "/v1/jobs:batch", {"jobs": [good, bad, JOB | {"model": "x"}]})
    assert refused.status == 422
    assert [problem["where"] for problem in refused.json["error"]["problems"]] == [
        "request, job 2",
        "request, job 3",
    ]
    assert api.store.jobs() == []
    assert api.ask("POST", "/v1/jobs:batch", {"jobs": [good, JOB]}).json == {"job_ids": [1, 2]}
    assert api.ask("POST", "/v1/jobs:batch", {"jobs": []}).json == {"job_ids": []}


def test_pages_have_every_job_once_though_more_arrive_meanwhile(api: Serving) -> None:
    api.ask("POST", "/v1/jobs:batch", {"jobs": [JOB] * 25})
    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        page = api.ask("GET", f"/v1/jobs?limit=10&after={after}").json
        seen += [job["job_id"] for job in page["jobs"]]
        after = page["next"]
        if len(seen) == 20:
            submitted(api)
    assert seen == list(range(1, 27))
    counts = api.ask("GET", "/v1/jobs?state=held&limit=1").json["counts"]
    assert counts == {state.value: 26 if state == State.QUEUED else 0 for state in State}


def test_lists_are_filtered(api: Serving) -> None:
    submitted(api, held=True)
    submitted(api, name="other")
    for query, expected in (
        ("state=held", [1]),
        ("state=held&state=queued", [1, 2]),
        ("name=other", [2]),
        ("user=another", []),
    ):
        answer = api.ask("GET", f"/v1/jobs?{query}")
        assert [job["job_id"] for job in answer.json["jobs"]] == expected


def test_the_queue_is_one_page_of_one_moment(api: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that starts while it is being read is in it once, with what the others have."""
    for held in (False, False, False, True):
        submitted(api, held=held)
    jobs = api.store.jobs

    def while_one_starts(*asked: Any) -> Any:
        found = jobs(*asked)
        api.store.commit(StoreChanges(jobs={2: {"state": State.RUNNING}}))
        return found

    monkeypatch.setattr(api.store, "jobs", while_one_starts)
    page = api.ask("GET", "/v1/queue?limit=2").json
    assert [(job["job_id"], job["state"]) for job in page["jobs"]] == [
        (1, "queued"),
        (2, "queued"),
        (4, "held"),
    ]
    assert (page["more"], page["counts"]["running"], page["notices"]) == (True, 0, [])
    page = api.ask("GET", "/v1/queue?state=held&state=running").json
    assert [job["job_id"] for job in page["jobs"]] == [4, 2]
    assert page["more"] is False


def test_a_job_shows_what_it_holds_and_why_it_waits(api: Serving) -> None:
    submitted(api, gpus=2)
    submitted(api, gpus=8)
    api.store.commit(
        StoreChanges(
            jobs={
                1: {"state": State.RUNNING, "phase": Phase.RUNNING, "epoch": 2, "last_start": 7.0},
                2: {"reason": "outranked", "reason_parameters": {"needs": 8.0, "left": 6.0}},
            },
            opened=[
                AllocationInterval(1, 1, NodeAllocation("node-0", (0,), 1.0, 2.0, 0.0), since=1.0, until=3.0),
                AllocationInterval(1, 2, NodeAllocation("node-1", (2, 3), 4.0, 8.0, 0.5), since=7.0),
            ],
        )
    )
    origin = api.store.origin
    held = {"node": "node-1", "gpu_ids": [2, 3], "gpus": 2.0, "cpus": 4.0, "memory_gb": 8.0}
    for job in (api.ask("GET", "/v1/jobs/1").json, api.ask("GET", "/v1/jobs").json["jobs"][0]):
        assert job["holds"] == [held | {"storage_gb_per_s": 0.5, "resources": {}, "since": origin + 7.0}]
        assert (job["state"], job["starts"], job["last_start"]) == ("running", 2, origin + 7.0)
        assert job["reason_text"] == ""
    waiting = api.ask("GET", "/v1/jobs/2").json
    assert waiting["reason_text"] == "it needs 8 GPUs and the jobs served before it leave 6"
    assert waiting["request"]["gpus"] == 8
    nodes = {node["name"]: node for node in api.ask("GET", "/v1/nodes").json["nodes"]}
    assert (nodes["node-1"]["held_gpus"], nodes["node-1"]["held_cpus"], nodes["node-1"]["jobs"]) == (
        2,
        4,
        [1],
    )
    assert (nodes["node-0"]["held_gpus"], nodes["node-0"]["jobs"]) == (0, [])


def test_every_reason_has_words(api: Serving) -> None:
    for name in REASONS:
        job = submitted(api)
        api.store.commit(StoreChanges(jobs={job: {"reason": name}}))
        assert api.ask("GET", f"/v1/jobs/{job}").json["reason_text"]


def test_state_requests_are_noted_or_refused_with_409(api: Serving) -> None:
    submitted(api)
    refused = api.ask("POST", "/v1/jobs/1/release")
    assert refused.status == 409
    assert refused.message == "job 1: it is not held (queued), so there is nothing to release"
    api.status.wait(0.0)
    assert api.ask("POST", "/v1/jobs/1/hold").json["state_request"] == "hold"
    assert api.status._something_new.is_set()
    assert [row.state_request for row in api.store.state_requests()] == [StateRequest.HOLD]
    assert api.ask("POST", "/v1/jobs/1/cancel").json["state_request"] == "cancel"
    kinds = [event["kind"] for event in api.ask("GET", "/v1/jobs/1/events").json["events"]]
    assert kinds == ["submitted", "hold", "cancel"]


def test_a_protected_wait_counts_down_to_nothing(api: Serving) -> None:
    submitted(api)
    now = api.store.now()
    for waited, left in ((100.0, 200), (400.0, 0)):
        parameters = {"needs": 1.0, "seconds": 300.0}
        since = {"reason_since": now - waited, "reason": "protected", "reason_parameters": parameters}
        api.store.commit(StoreChanges(jobs={1: since}))
        said = api.ask("GET", "/v1/jobs/1").json["reason_text"]
        found = re.search(r"interrupted in ([\d.]+) (min|s) at the earliest", said)
        assert found
        seconds = float(found[1]) * (60 if found[2] == "min" else 1)
        assert left - 60 < seconds <= left


def test_why_names_a_time_limit_that_is_over(api: Serving) -> None:
    """While the job stops, and after that; another job that stops goes on later."""
    submitted(api, time_limit_seconds=3600.0)
    running = {"state": State.RUNNING, "phase": Phase.STOPPING, "run_seconds": 3000.0}

    def why(**changes: object) -> str:
        api.store.commit(StoreChanges(jobs={1: changes}))
        return " ".join(api.ask("GET", "/v1/jobs/1/why").json["sentences"])

    assert "it goes on where the scheduler puts it next" in why(**running, last_start=api.store.now() - 500)
    over = why(last_start=api.store.now() - 601)
    assert "it has run for its time limit of 1.00 h. It does not start again." in over
    ended = {"state": State.TIMED_OUT, "message": "its time limit of 1.00 h is over", "finished": 1.0}
    said = why(**ended)
    assert "it has been stopped: its time limit of 1.00 h is over; it does not start again." in said
    assert "muster logs 1" in said


def test_why_is_answered_in_sentences(api: Serving) -> None:
    submitted(api, held=True)
    reply = api.ask("GET", "/v1/jobs/1/why").json
    assert reply["job_id"] == 1
    assert "is held" in " ".join(reply["sentences"])


def test_why_says_what_a_running_job_would_gain(api: Serving) -> None:
    submitted(api, gpus=1, model="resnet18")
    submitted(api, gpus=2, model="resnet18")
    elastic = JobRequest(name="elastic", command=("true",), directory="/", gpus=1, min_gpus=1, max_gpus=4)
    api.store.submit([Submission(api.store.jobs()[0].user, elastic)])
    running = {"state": State.RUNNING, "phase": Phase.RUNNING, "epoch": 1, "last_start": 1.0}
    held = [
        NodeAllocation("node-0", (0,), 1.0, 25.0, 5.0),
        NodeAllocation("node-0", (1, 2), 7.0, 5.0, 5.0),
        NodeAllocation("node-1", (0,), 1.0, 4.0, 0.1),
    ]
    opened = [AllocationInterval(job, 1, here, since=1.0) for job, here in enumerate(held, start=1)]
    api.store.commit(StoreChanges(jobs=dict.fromkeys((1, 2, 3), running), opened=opened))

    def why(job: int) -> str:
        return " ".join(api.ask("GET", f"/v1/jobs/{job}/why").json["sentences"])

    assert "It has 1 GPU because its owner asks for exactly that." in why(1)
    gain = re.search(r"With one more CPU core it would be (\d+) % faster; (.*?)\.", why(1))
    assert gain is not None
    assert (int(gain[1]) >= 1, gain[2]) == (True, "node-0 has 0 CPU cores free, job 2 holds the others")
    assert re.search(
        r"With 10 GB more memory it would be \d+ % faster; node-0 has 2 GB of memory free", why(1)
    )
    assert "Its place is as good as any." in why(1)
    assert "Its owner allows 1 to 4 GPUs, and the scheduler gives it 1." in why(3)
    assert "is not known: `muster profile` measures it." in why(3)


def test_clocks_that_differ_are_named_beside_the_nodes(api: Serving) -> None:
    api.status.clocks = {"node-0": 3600.0, "node-1": -2.0, "node-2": 1.9}
    assert api.ask("GET", "/v1/nodes").json["notices"] == [
        f"The clock of {words} that of the daemon. Hint: synchronize the clocks of all machines with NTP."
        for words in ("node-0 is 1.00 h ahead of", "node-1 is 2.00 s behind")
    ]


def test_nodes_are_drained_and_used_again(api: Serving) -> None:
    for name, drained in (("drain", True), ("undrain", False)):
        answer = api.ask("POST", f"/v1/nodes/node-1/{name}")
        assert [(node["name"], node["drained"]) for node in answer.json["nodes"]] == [("node-1", drained)]
        assert {node.name: node.drained for node in api.store.nodes()} == {"node-1": drained}
    unknown = api.ask("POST", "/v1/nodes/..%2Fx/drain")
    assert unknown.status == 404


def test_a_node_with_a_slash_in_its_name_is_drained(api: Serving) -> None:
    first, *others = api.status.cluster.nodes
    api.status.cluster = replace(api.status.cluster, nodes=(replace(first, name="rack/1"), *others))
    for what, drained in (("drain", True), ("undrain", False)):
        answer = api.ask("POST", f"/v1/nodes/rack%2F1/{what}")
        assert [(node["name"], node["drained"]) for node in answer.json["nodes"]] == [("rack/1", drained)]


def test_models_that_were_measured_here_are_known_at_once(api: Serving) -> None:
    known = {model["name"] for model in api.ask("GET", "/v1/models").json["models"]}
    assert "resnet18" in known
    assert api.ask("POST", "/v1/jobs", JOB | {"model": "mine"}).status == 422
    shipped = Path(__file__).parents[3] / "muster" / "workload" / "model_files" / "resnet18.toml"
    text = shipped.read_text().replace('name = "resnet18"', 'name = "mine"')
    lines = [line for line in text.splitlines() if not line.startswith("aliases")]
    (api.home / "models" / "mine.toml").write_text("\n".join(lines))
    (api.home / "models" / "broken.toml").write_text("this is no model")
    assert submitted(api, model="Mine") == 1


def test_the_export_is_a_record_that_report_reads(api: Serving, tmp_path: Path) -> None:
    submitted(api)
    answer = api.ask("GET", "/v1/export")
    folder = tmp_path / "record"
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            (folder / member.name).write_bytes(content.read())
    assert read_record(folder).jobs["job_id"].to_list() == ["1"]


def test_metrics_show_the_store_and_the_daemon_status(api: Serving) -> None:
    submitted(api)
    submitted(api, held=True)
    held = AllocationInterval(
        1, 1, NodeAllocation(api.status.cluster.nodes[0].name, (0, 1, 2), 2.0, 3.0, 0.1), since=0.0
    )
    api.store.commit(StoreChanges(opened=[held]))
    api.store.drain(api.status.cluster.nodes[1].name, True)
    api.status.decisions, api.status.decision_seconds_sum = 3, 0.5
    api.status.clocks = {"slurmctld": -20.3}
    answer = api.ask("GET", "/metrics")
    found = {
        (sample.name, sample.labels.get("state") or sample.labels.get("machine")): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }
    expected = {
        ("muster_jobs", "queued"): 1,
        ("muster_jobs", "held"): 1,
        ("muster_jobs", "running"): 0,
        ("muster_gpus", None): 8,
        ("muster_held_gpus", None): 3,
        ("muster_free_gpus", None): 1,
        ("muster_free_memory_bytes", None): 29e9,
        ("muster_free_storage_bytes_per_second", None): pytest.approx(0.15e9),
        ("muster_decisions_total", None): 3,
        ("muster_decision_seconds_total", None): 0.5,
        ("muster_last_decision_seconds", None): 0,  # No decision has set it yet.
        ("muster_decision_failures_total", None): 0,
        ("muster_ready", None): 1,
        ("muster_degraded", None): 0,
        ("muster_clock_ahead_seconds", "slurmctld"): -20.3,
    }
    assert {key: found[key] for key in expected} == expected


def test_the_dashboard_asks_for_metrics_that_exist(api: Serving) -> None:
    dashboard = json.loads((Path(__file__).parents[3] / "docs" / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = set(re.findall(r"muster_[a-z_]+", " ".join(asked)))
    reply = set(re.findall(r"^muster_[a-z_]+", api.ask("GET", "/metrics").body.decode(), flags=re.MULTILINE))
    assert names
    assert names <= reply


def test_health_says_what_is_wrong(api: Serving) -> None:
    assert api.ask("GET", "/healthz").json["scheduler"] == "fifo+proportional+pack"
    api.status.set_condition(STORE, "no space left on the disk of the store")
    unwell = api.ask("GET", "/healthz")
    assert (unwell.status, unwell.message) == (503, "no space left on the disk of the store")
    api.status.set_condition(SCHEDULER, "the scheduler fails")
    api.status.clear_condition(STORE)
    assert api.ask("GET", "/healthz").message == "the scheduler fails"
    api.status.clear_condition(SCHEDULER)
    assert api.ask("GET", "/healthz").status == 200
    api.status.looked_at = time.monotonic() - 1000
    assert "the controller hangs: its last turn was 1000 s ago" in api.ask("GET", "/healthz").message


def test_a_store_that_fails_answers_503_with_a_message(api: Serving) -> None:
    api.store.close()
    (api.home / "muster.db").write_bytes(b"")
    for suffix in ("-wal", "-shm"):
        (api.home / f"muster.db{suffix}").unlink(missing_ok=True)
    failed = api.ask("POST", "/v1/jobs", JOB)
    assert (failed.status, failed.headers["retry-after"]) == (503, "1")
    assert failed.message.startswith("the store cannot be used: no such table")


@pytest.fixture
def output(api: Serving) -> Path:
    """Of job 1."""
    submitted(api)
    folder = job_folder(api.home, 1) / "output"
    folder.mkdir(parents=True)
    return folder


def test_output_is_read_in_pieces(api: Serving, output: Path) -> None:
    (output / "0.log").write_bytes(b"0123456789\xff")
    (output / "1.log").write_bytes(b"other")
    first = api.ask("GET", "/v1/jobs/1/logs?limit=4")
    assert (first.body, first.headers["muster-next-offset"]) == (b"0123", "4")
    rest = api.ask("GET", "/v1/jobs/1/logs?offset=4")
    assert (rest.body, rest.headers["muster-next-offset"]) == (b"456789\xff", "11")
    assert rest.headers["muster-job-state"] == "queued"
    assert api.ask("GET", "/v1/jobs/1/logs?rank=1").body == b"other"
    for query in ("offset=11", "offset=9999999999", "rank=2"):
        assert api.ask("GET", f"/v1/jobs/1/logs?{query}").body == b""


def test_a_disk_that_does_not_answer_costs_outputs_only(tmp_path: Path) -> None:
    """More requests for output than the server has threads are refused in time, and all others are answered."""
    is_back = threading.Event()

    def read_later(request: OutputRequest) -> OutputPiece:
        is_back.wait()
        return OutputPiece(b"0123456789", 10)

    with serving(tmp_path, output=OutputReader(read_later, answer_seconds=1.0)) as api:
        api.ask("POST", "/v1/jobs", JOB)
        with ThreadPoolExecutor(60) as callers:
            answers = list(callers.map(lambda _: api.ask("GET", "/v1/jobs/1/logs"), range(60)))
        assert {answer.status for answer in answers} == {503}
        assert answers[0].message == "the disk of the jobs' folders does not answer; ask again later"
        assert sum(thread.name == "output" for thread in threading.enumerate()) == 4
        assert api.ask("GET", "/v1/jobs/1").status == 200
        is_back.set()
        assert api.ask("GET", "/v1/jobs/1/logs").body == b"0123456789"


def test_output_that_cannot_be_read_now_is_asked_for_again(tmp_path: Path) -> None:
    def fail(request: OutputRequest) -> OutputPiece:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with serving(tmp_path, output=OutputReader(fail)) as api:
        api.ask("POST", "/v1/jobs", JOB)
        answer = api.ask("GET", "/v1/jobs/1/logs")
    assert (answer.status, answer.message) == (503, "the output cannot be read now: Stale file handle")


def test_output_is_read_from_its_end(api: Serving, output: Path) -> None:
    (output / "0.log").write_bytes(b"0123456789")
    for query, shown, following in (
        ("offset=-4", b"6789", "10"),
        ("offset=-4&limit=3", b"678", "9"),
        ("offset=-99", b"0123456789", "10"),
        ("offset=-4&rank=2", b"", "0"),
    ):
        answer = api.ask("GET", f"/v1/jobs/1/logs?{query}")
        assert (answer.body, answer.headers["muster-next-offset"]) == (shown, following), query


def test_output_leads_nowhere_else(api: Serving, output: Path, tmp_path: Path) -> None:
    """Whatever a job puts in the place of its output: links, pipes, folders."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (output / "0.log").symlink_to(secret)
    (output / "1.log").hardlink_to(secret)
    os.mkfifo(output / "2.log")
    (output / "3.log").mkdir()
    for rank in range(4):
        answer = api.ask("GET", f"/v1/jobs/1/logs?rank={rank}")
        assert (answer.status, answer.body) == (200, b"")
    elsewhere = tmp_path / "elsewhere"
    output.rename(elsewhere)
    (elsewhere / "5.log").write_text("secret")
    output.symlink_to(elsewhere)
    assert api.ask("GET", "/v1/jobs/1/logs?rank=5").body == b""
