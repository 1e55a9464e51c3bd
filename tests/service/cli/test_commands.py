"""What a job's owner and an operator type, and what they get."""

from __future__ import annotations

import getpass
import json
import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.report.record import read_record
from muster.schedulers.registry import build
from muster.service.home import (
    job_folder,
    read_endpoint,
    remove_endpoint,
    socket_path,
    store_url,
    write_endpoint,
)
from muster.service.request import JobRequest
from muster.service.store.rows import AllocationInterval, Phase, State, StoreChanges, Submission

from ...cli.conftest import Outcome
from ..controller.cycling_sizes import CyclingSizes
from ..serving import Serving, a_request
from .conftest import Muster


def test_a_job_is_submitted_by_flags(
    api: Serving, muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.status.policy = build("priority")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/my/bin")
    monkeypatch.setenv("SECRET", "not for the job")
    monkeypatch.setenv("MINE", "yes")
    flags = "--name resnet --gpus 2 --cpus 6 --memory 16GB --own-memory 8GB --steps 9000 --model resnet18"
    more = "--priority 1.5 --threads 2 --ranks per-gpu --tenant t --env MINE --env A=b=c --stop-signal SIGUSR1 --json"
    done = muster("submit", *flags.split(), *more.split(), "--", "python", "train.py", "--epochs", "3")
    assert (done.status, json.loads(done.out)) == (0, {"job_id": 1})
    row = api.store.job(1)
    assert row is not None
    environment = row.request.environment
    assert (environment["PATH"], environment["MINE"], environment["A"]) == ("/my/bin", "yes", "b=c")
    assert "SECRET" not in environment
    assert row.request == a_request(
        name="resnet",
        command=("python", "train.py", "--epochs", "3"),
        directory=str(tmp_path),
        environment=environment,
        gpus=2,
        cpus=6.0,
        memory_gb=16.0,
        own_memory_gb=8.0,
        steps=9000,
        model="resnet18",
        priority=1.5,
        compute_threads=2,
        ranks="per-gpu",
        tenant="t",
        stop_signal="SIGUSR1",
    )


def test_a_job_states_the_sizes_that_it_allows(api: Serving, muster: Muster) -> None:
    refused = muster("submit", "--gpus", "2", "--min-gpus", "1", "--", "true")
    assert refused.status == 2
    assert "--min-gpus: found 1; fifo+" in refused.err
    api.status.policy = CyclingSizes()
    flags = "--gpus 2 --min-gpus 1 --max-gpus 4 --ranks per-gpu"
    assert muster("submit", *flags.split(), "--", "true").status == 0
    assert "2 GPUs (1 to 4)" in muster("status", "1").out
    assert re.search(r"queued +2 ", muster("queue").out)


def test_limits_and_deadlines_are_times(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.status.policy = build("edf")
    assert muster("submit", "--time-limit", "12h", "--deadline", "2d", "--", "true").status == 0
    soon = datetime.fromtimestamp(time.time() + 3600).isoformat(timespec="seconds")
    assert muster("submit", "--deadline", soon, "--", "true").status == 0
    first, second = (row.request for row in api.store.jobs())
    assert (first.time_limit_seconds, first.deadline_seconds) == (43_200.0, 172_800.0)
    assert second.deadline_seconds == pytest.approx(3600.0, abs=60)
    for flag, value, said in (
        ("--time-limit", "0", "allowed: a time above 0"),
        ("--time-limit", "soon", "--time-limit: found 'soon'"),
        ("--deadline", "2001-01-01T00:00", "it lies in the past"),
        ("--deadline", "2027-02-29", "or a date and time, such as 2026-12-31T18:00"),
        ("--deadline", "0001-01-01", "--deadline: found '0001-01-01'; allowed:"),
        ("--deadline", "9999-12-31T23:59-14:00", "; allowed: 1e+09 or less"),
    ):
        refused = muster("submit", flag, value, "--", "true")
        assert (refused.status, said in refused.err) == (2, True), refused.err
    api.status.policy = build("fifo")
    refused = muster("submit", "--priority", "2", "--deadline", "2d", "--", "true")
    assert refused.status == 2
    assert [line.partition(";")[0] for line in refused.err.splitlines()] == [
        "--priority: found 2.0",
        "--deadline: found '2d'",
    ]
    refused = muster("submit", "--memory", "100TB", "--", "true")
    assert refused.err.startswith("--memory: found '100TB'; cluster ")


def test_all_lists_the_jobs_that_have_ended(api: Serving, muster: Muster) -> None:
    states = list(State)
    ids = api.store.submit([Submission("ann", a_request(name=state)) for state in states])
    changes = StoreChanges()
    for job, state in zip(ids, states, strict=True):
        changes.job(job, state=state, finished=5.0)
    api.store.commit(changes)
    shown = json.loads(muster("queue", "--all", "--json").out)["jobs"]
    assert sorted(row["state"] for row in shown) == sorted(states)
    shown = json.loads(muster("queue", "--json").out)["jobs"]
    assert {row["state"] for row in shown} == {"running", "queued", "held"}


def test_queue_and_why_give_one_reason_while_drained(api: Serving, muster: Muster) -> None:
    (job,) = api.store.submit([Submission(getpass.getuser(), a_request(name="waits"))])
    changes = StoreChanges()
    changes.job(job, reason="no_gpus", reason_parameters={"needs": 1.0, "free": 0.0})
    api.store.commit(changes)
    assert muster("drain", "node-0").status == 0
    words = "needs 1 GPU and 0 are free; node-0 is drained"
    assert json.loads(muster("queue", "--json").out)["jobs"][0]["reason_text"] == f"it {words}"
    assert f"It {words}." in muster("why", str(job)).out
    assert f"it {words}" in json.loads(muster("status", str(job), "--json").out)["reason_text"]


def test_submit_names_a_job_by_its_script_and_prints_its_number(api: Serving, muster: Muster) -> None:
    queued = muster("submit", "--", "python", "-u", "lib/train.py").out
    assert queued.startswith("Job 1 (train) is queued.\n")
    assert muster("submit", "--hold", "--", "/usr/bin/true").out.startswith("Job 2 (true) is held.\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("", "It is not stopped to make room for other jobs, unless it reports through muster.training"),
        ("--preemptible", "It may be stopped to make room for other jobs: it loses its work then"),
        ("--stop-signal SIGUSR1", "It may be stopped to make room for other jobs: SIGUSR1 makes it save"),
        ("--stop-signal SIGUSR1 --no-preemptible", "It is never stopped to make room for other jobs."),
    ],
)
def test_submit_and_status_say_whether_a_job_may_be_stopped(
    api: Serving, muster: Muster, flags: str, said: str
) -> None:
    submitted = muster("submit", *flags.split(), "--", "x").out
    assert submitted.splitlines()[1].startswith(said)
    assert said in " ".join(muster("status", 1).out.split())
    assert json.loads(muster("status", 1, "--json").out)["preemptible"] is (said.startswith("It may"))


def test_restart_loss_is_in_queue_and_status(api: Serving, muster: Muster) -> None:
    some_jobs(api)
    assert "lost" not in muster("queue").out
    now = api.store.now()
    shown = {"epoch": 3, "run_seconds": 400.0, "restart_seconds": 100.0, "joined": True, "first_step": now}
    api.store.commit(StoreChanges(jobs={1: {**shown, "start_up_seconds": 30.0, "stop_seconds": 2.0}}))
    assert re.search(r"since +lost +where", muster("queue").out)
    assert re.search(r"running +1 +2\.00 h +25% +node-0", muster("queue").out)
    status = " ".join(muster("status", 1).out.split())
    assert "1.67 min (25% of it): start-ups, stops and lost work" in status
    assert "start-up 30.0 s, stop 2 s, as measured" in status
    assert "It may be stopped to make room for other jobs: muster.training saves its work." in status
    assert "Its 2 earlier starts lost 1.67 min of 6.67 min" in " ".join(muster("why", 1).out.split())


def test_profile_auto_uses_what_is_known_or_says_that_nothing_is(api: Serving, muster: Muster) -> None:
    assert muster("submit", "--name", "Resnet18", "--profile", "auto", "--", "x").err == ""
    unknown = muster("submit", "--name", "mine", "--profile", "auto", "--json", "--", "x")
    assert json.loads(unknown.out) == {"job_id": 2}
    assert "No model mine has been profiled here" in unknown.err
    assert [row.request.model for row in api.store.jobs()] == ["resnet18", None]


def test_a_job_is_submitted_by_a_file(
    api: Serving, muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text('name = "bert"\ncommand = ["x"]\ngpus = 4\n[environment]\nPATH = "/own"\n')
    assert muster("submit", "job.toml").out.startswith("Job 1 (bert) is queued.\n")
    row = api.store.job(1)
    assert row is not None
    assert (row.request.gpus, row.request.directory) == (4, str(tmp_path))
    assert row.request.environment["PATH"] == "/own"


def test_flags_override_the_file(
    api: Serving, muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.status.policy = build("priority")
    monkeypatch.chdir(tmp_path)
    lines = ['name = "bert"', 'command = ["x"]', "gpus = 4", "steps = 7", 'model = "resnet19"']
    Path("job.toml").write_text("\n".join([*lines, '[environment]\nA = "file"\nB = "file"\n']))
    more = "--gpus 2 --priority 3 --hold --env B=flag -C / --name mine"
    refused = muster("submit", *more.split(), "--cpus", "99", "job.toml")
    assert refused.status == 2
    at_flag, at_line = refused.err.splitlines()
    assert at_flag.startswith("--cpus: found '99'; ")
    assert at_line.startswith("job.toml:5: model: ")
    done = muster("submit", *more.split(), "--model", "resnet18", "job.toml")
    assert done.out.startswith("Job 1 (mine) is held.\n")
    row = api.store.job(1)
    assert row is not None
    asked = row.request
    assert (asked.gpus, asked.steps, asked.priority, asked.directory) == (2, 7, 3.0, "/")
    assert (asked.model, asked.environment["A"], asked.environment["B"]) == ("resnet18", "file", "flag")
    assert muster("submit", "--gpus", "1", "job.toml", "--model", "resnet18").status == 0
    assert [row.request.gpus for row in api.store.jobs()] == [2, 1]


@pytest.mark.parametrize(
    ("name", "said"), [("  ", "found '  '; allowed: text"), ("", "it must not be empty")]
)
def test_a_job_without_a_readable_name_is_refused(
    api: Serving, muster: Muster, tmp_path: Path, name: str, said: str
) -> None:
    refused = muster("submit", "--name", name, "--", "x")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("--name: ")
    assert said in refused.err
    file = tmp_path / "job.toml"
    file.write_text(f'name = "{name}"\ncommand = ["x"]\n')
    refused = muster("submit", str(file))
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith(f"{file}:1: name: ")
    assert said in refused.err
    assert api.store.jobs() == []


def test_words_after_a_job_file_are_refused(api: Serving, muster: Muster) -> None:
    refused = muster("submit", "job.toml", "more", "words")
    assert refused.status == 2
    assert refused.err.startswith("FILE.toml: found 'job.toml more words'; allowed: job.toml alone")
    assert api.store.jobs() == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('gpu = 1\ngpus = "x"', ["job.toml:3: gpu: ", "job.toml:4: gpus: "]),
        ("gpus = 9", ["job.toml:3: gpus: found 9; cluster 2x4gpu,8cpu,32gb has 8 GPUs"]),
        ('model = "resnet19"', ["job.toml:3: model: ", "did you mean resnet18"]),
        ("gpus = ", ["job.toml:3: this is not TOML"]),
        ("gpus = 2\ngpu_share = 0.5", ["job.toml: ", "gpu_share is of one GPU"]),
        ('tenant = "  "', ["job.toml:3: tenant: found '  '; allowed: ", "not only spaces"]),
    ],
)
def test_a_wrong_file_is_reported_with_its_lines(
    api: Serving, muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(f'name = "bert"\ncommand = ["x"]\n{line}\n')
    refused = muster("submit", "job.toml")
    assert refused.status == 2
    assert all(words in refused.err for words in said), refused.err
    assert api.store.jobs() == []


@pytest.mark.usefixtures("api")
def test_a_command_of_wrong_words_is_not_called_empty(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text('name = "bert"\ncommand = [1]\n')
    refused = muster("submit", "job.toml")
    assert (refused.status, refused.err) == (2, "job.toml:2: command.1: found 1; allowed: a text in quotes\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--gpus 9", "--gpus: found 9; cluster 2x4gpu,8cpu,32gb has 8 GPUs"),
        ("--gpu-share 0.5 --gpus 2", "gpu_share is of one GPU"),
        (
            "--cpus few --memory much",
            "--cpus: found 'few'; allowed: a number of CPU cores, or auto\n--memory: ",
        ),
        ("--memory 33GB", "--memory: found '33GB'; "),
        ("--threads 0", "--threads: found 0; allowed: 1 or more"),
        ("--env NOWHERE", "--env: found 'NOWHERE'; there is no such variable here"),
        ("--env MUSTER_X=1", "Muster sets this itself"),
        ("--env A=1 --env B=1 --env A=2", "--env: found 'A=2'; A is given twice; give it once"),
        ("--resource a=1 --resource a=2", "--resource: found 'a=2'; a is given twice; give it once"),
        ("--ranks two", "--ranks: found 'two'; allowed: 'one' or 'per-gpu'"),
        ("--profile yes", "--profile: found 'yes'; allowed: auto"),
        ("--profile auto --model resnet18", "--model NAME names another"),
        ("--model resnet19", "--model: found 'resnet19'; allowed: "),
    ],
)
def test_a_wrong_flag_is_reported_by_its_name(api: Serving, muster: Muster, flags: str, said: str) -> None:
    refused = muster("submit", *flags.split(), "--", "x")
    assert refused.status == 2
    assert said in refused.err
    as_json = json.loads(muster("submit", *flags.split(), "--json", "--", "x").out)
    assert as_json["error"]["problems"]
    assert api.store.jobs() == []


def test_a_job_without_a_program_is_refused(api: Serving, muster: Muster) -> None:
    refused = muster("submit", "--name", "empty", "--", "")
    assert refused.status == 2
    assert refused.err == "COMMAND: found ''; allowed: a program as the first word\n"
    assert api.store.jobs() == []


def some_jobs(api: Serving) -> None:
    """One that runs, one that waits, one held, one failed."""
    requests = [
        a_request(name=name) for name in ("runs", "waits [red]", "rests", "a-name-that-is-far-too-long-" * 3)
    ]
    requests[1] = a_request(name="waits [red]", gpus=8)
    api.store.submit([Submission(user, request) for user, request in zip("aabb", requests, strict=True)])
    now = api.store.now()
    api.store.commit(
        StoreChanges(
            jobs={
                1: {"state": State.RUNNING, "phase": Phase.RUNNING, "last_start": now - 7200, "epoch": 1},
                2: {"reason": "outranked", "reason_parameters": {"needs": 8.0, "left": 7.0}},
                3: {"state": State.HELD},
                4: {"state": State.FAILED, "finished": now, "status": -9, "message": "killed"},
            },
            opened=[
                AllocationInterval(1, 1, NodeAllocation("node-0", (0, 1, 3), 3.0, 4.0, 0.0), since=now - 7200)
            ],
        )
    )


@pytest.mark.parametrize(
    ("columns", "row"), [("160", " 1 +train-vit-large-on-images-1 +held"), ("30", " 1 +tra.{1,5}… +held")]
)
def test_the_queue_keeps_numbers_and_shows_wide_names(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch, columns: str, row: str
) -> None:
    muster("submit", "--gpus", "1", "--hold", "--name", "train-vit-large-on-images-1", "--", "true")
    monkeypatch.setenv("COLUMNS", columns)
    assert re.search(row, muster("queue").out)


def test_the_queue_fits_80_columns_and_shows_who_holds_what(api: Serving, muster: Muster) -> None:
    some_jobs(api)
    shown = muster("queue")
    assert shown.status == 0
    lines = [line.rstrip() for line in shown.out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert any(re.fullmatch(r" +1 +runs +a +running +1 +2\.00 h +node-0: 0-1,3", line) for line in lines), (
        lines
    )
    assert any(re.match(r" +2 +waits \[red\] +a +queued +8 .* needs 8 GPUs and", line) for line in lines)
    assert lines[-1] == "1 queued, 1 running, 1 held, 1 failed."
    failed = muster("queue", "--state", "failed").out
    assert "killed" in failed
    assert "runs" not in failed
    for chosen, ids in ((("--user", "b"), [3]), (("--name", "runs"), [1]), (("--all",), [1, 2, 3, 4])):
        reply = json.loads(muster("queue", *chosen, "--json").out)
        assert [job["job_id"] for job in reply["jobs"]] == ids
    assert reply["counts"]["queued"] == 1
    wrong = muster("queue", "--state", "lost")
    assert (wrong.status, wrong.err.partition(";")[0]) == (2, "--state: found 'lost'")


def test_a_long_queue_shows_its_head_and_says_so(api: Serving, muster: Muster) -> None:
    api.store.submit([Submission("a", a_request())] * 120)
    shown = muster("queue").out
    assert "120 queued. The first ones of them are shown; --all shows all." in shown
    assert len(shown.splitlines()) < 60
    assert len(json.loads(muster("queue", "--all", "--json").out)["jobs"]) == 120
    api.store.submit([Submission("a", a_request(held=True))])
    found = {
        every: json.loads(muster("queue", *every, "--state", "queued", "--json").out)
        for every in ((), ("--all",))
    }
    assert {every: (len(one["jobs"]), one["more"]) for every, one in found.items()} == {
        (): (50, True),
        ("--all",): (120, False),
    }


def test_status_shows_everything_about_a_job(api: Serving, muster: Muster) -> None:
    some_jobs(api)
    shown = muster("status", 1).out
    for words in ("running for 2.00 h", "GPU 0-1,3, 3 CPU cores, 4 GB", "submitted", "true"):
        assert words in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "killed" in muster("status", 4).out
    assert json.loads(muster("status", 3, "--json").out)["state"] == "held"
    kinds = [event["kind"] for event in json.loads(muster("status", 3, "--json").out)["events"]]
    assert kinds == ["submitted"]
    absent = muster("status", 9)
    assert (absent.status, absent.err) == (2, "there is no job 9\n")
    assert json.loads(muster("status", 9, "--json").out)["error"]["message"] == "there is no job 9"


def test_why_speaks_in_lines_that_fit(api: Serving, muster: Muster) -> None:
    some_jobs(api)
    shown = muster("why", 3).out
    assert "Job 3 (rests) is held" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert json.loads(muster("why", 3, "--json").out)["state"] == "held"


def test_jobs_are_cancelled_held_and_released_several_at_once(api: Serving, muster: Muster) -> None:
    some_jobs(api)
    assert muster("cancel", 1, 2, 2).out == "Job 1 is being cancelled.\nJob 2 is being cancelled.\n"
    assert muster("release", 3).out == "Job 3 competes again.\n"
    mixed = muster("hold", 4, 3, 9)
    assert mixed.status == 2
    assert mixed.out == "Job 3 will be held.\n"
    assert "job 4: it has ended (failed)" in mixed.err
    assert "there is no job 9" in mixed.err
    assert json.loads(muster("hold", 3, "--json").out)["jobs"][0]["state_request"] == "hold"


def test_logs_are_printed_byte_by_byte(api: Serving, muster: Muster) -> None:
    api.store.submit([Submission("a", a_request())])
    empty = muster("logs", 1)
    assert (empty.status, empty.out) == (0, "")
    assert "has written nothing so far" in empty.err
    output = job_folder(api.home, 1) / "output"
    output.mkdir(parents=True)
    (output / "0.log").write_bytes(b"x" * 3_000_000 + b"\xff\nend")
    (output / "1.log").write_text("of rank 1")
    assert muster("logs", 1).out == "x" * 3_000_000 + "\\xff\nend"
    assert muster("logs", "--rank", 1, 1).out == "of rank 1"
    assert json.loads(muster("logs", 1, "--rank", 1, "--json").out)["output"] == "of rank 1"


def test_logs_are_followed_until_the_job_ends(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it waits for more, more happens."""
    api.store.submit([Submission("a", a_request())])
    output = job_folder(api.home, 1) / "output" / "0.log"
    output.parent.mkdir(parents=True)
    happens: list[Callable[[], object]] = [
        lambda: output.write_text("first\n"),
        lambda: output.write_text("first\nsecond\n"),
        lambda: api.store.commit(StoreChanges(jobs={1: {"state": State.COMPLETED}})),
    ]
    monkeypatch.setattr(time, "sleep", lambda _: happens.pop(0)())
    assert muster("logs", "-f", 1).out == "first\nsecond\n"
    assert happens == []


def test_nodes_are_shown_drained_and_used_again(api: Serving, muster: Muster) -> None:
    some_jobs(api)
    assert re.search(r"node-0 +GPU +3 of 4 +3 of 8 +4 of 32 +1", muster("nodes").out)
    assert muster("drain", "node-0").out == "Nothing starts on node node-0 any more. Job 1 moves away.\n"
    api.status.away = frozenset({"node-0", "node-1"})
    assert re.findall(r"node-\d \(.*?\)", muster("nodes").out) == ["node-0 (drained, away)", "node-1 (away)"]
    api.status.away = frozenset()
    assert "node-0 (drained)" in muster("nodes").out
    assert muster("drain", "node-0", "--undo").out == "Node node-0 is used again.\n"
    assert json.loads(muster("nodes", "--json").out)["nodes"][0]["drained"] is False
    assert muster("drain", "x y?").err == "there is no node 'x y?'; muster nodes lists them\n"
    assert muster("drain", "../x").status == 2


def test_a_snapshot_needs_a_decision(api: Serving, muster: Muster, tmp_path: Path) -> None:
    assert api.status.last_decision is None
    done = muster("snapshot", "-o", tmp_path / "s.json")
    assert (done.status, done.err) == (2, "there has been no decision since this daemon began\n")
    assert not (tmp_path / "s.json").exists()
    (tmp_path / "s.json").touch()
    assert "the file exists" in muster("snapshot", "-o", tmp_path / "s.json").err


def test_the_record_is_exported_into_a_folder(api: Serving, muster: Muster, tmp_path: Path) -> None:
    some_jobs(api)
    ran = {"state": State.COMPLETED, "finished": 200.0, "run_seconds": 100.0, "restart_seconds": 10.0}
    (choosy,) = api.store.submit([Submission("a", a_request(constraint="gpu_type=GPU"))])
    api.store.commit(StoreChanges(jobs={1: ran, choosy: ran}))
    done = muster("export", tmp_path / "record")
    assert done.status == 0, done.err
    assert len(read_record(tmp_path / "record").jobs) == 5
    trace = tmp_path / "record" / "trace.csv"
    assert dict(pl.read_csv(trace)["job_id", "constraint"].iter_rows()) == {1: "", choosy: "gpu_type=GPU"}
    again = muster("simulate", trace, "--cluster", "1x2gpu", "--out", tmp_path / "again")
    assert again.status == 0, again.err
    assert read_record(tmp_path / "again").jobs["run_seconds"].to_list() == [90.0, 90.0]
    assert muster("export", tmp_path / "record").status == 2
    assert json.loads(muster("export", tmp_path / "record", "--overwrite", "--json").out)["record"]
    onto = muster("simulate", trace, "--cluster", "1x2gpu", "--out", tmp_path / "record", "--overwrite")
    assert (onto.status, "found 'cluster.toml, trace.csv'" in onto.err) == (2, True)
    (tmp_path / "record" / "thesis.txt").touch()
    assert "found 'thesis.txt'" in muster("export", tmp_path / "record", "--overwrite").err


def test_tokens_are_made_listed_used_and_revoked(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = muster("token", "create", "chief", "--role", "operator")
    assert "it cannot be shown again" in made.err
    monkeypatch.setenv("MUSTER_URL", api.tcp_url)
    assert "a token is needed: set MUSTER_TOKEN" in muster("queue").err
    monkeypatch.setenv("MUSTER_TOKEN", made.out.strip())
    ann = json.loads(muster("token", "create", "ann", "--json").out)
    assert re.search(r"2 +ann +user", muster("token", "list").out)
    assert len(json.loads(muster("token", "list", "--json").out)["tokens"]) == 2
    assert muster("token", "revoke", 2).out == "Token 2, of ann, is revoked.\n"
    monkeypatch.setenv("MUSTER_TOKEN", ann["token"])
    assert muster("queue").status == 2
    # Who can write the store needs no other key to it.
    again = json.loads(
        muster("token", "create", "me", "--role", "operator", "--store", store_url(api.home), "--json").out
    )
    monkeypatch.setenv("MUSTER_TOKEN", again["token"])
    assert muster("token", "list").status == 0
    assert muster("token", "create", "x", "--role", "king").status == 2


def test_without_a_daemon_one_sentence_says_how_to_start_one(
    no_daemon: Path, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = no_daemon
    commands: list[tuple[Any, ...]] = [
        ("queue",), ("status", 1), ("why", 1), ("logs", 1), ("cancel", 1), ("nodes",), ("drain", "n"),
        ("export", home / "x"), ("token", "list"), ("submit", "--", "x"),
    ]  # fmt: skip
    for command in commands:
        refused = muster(*command)
        expected = f"daemon: none answers in {home}; muster serve starts one\n"
        assert (refused.status, refused.err) == (1, expected)
    home.mkdir(exist_ok=True)
    write_endpoint(home)
    at = f"unix://{home}/muster.sock"
    assert muster("queue").err == f"daemon: none answers at {at}; muster serve starts one\n"
    socket_path(home).touch()
    assert muster("queue").err == f"daemon: none answers at {at}; muster serve starts one\n"
    remove_endpoint(home)
    assert read_endpoint(home) is None
    monkeypatch.setenv("MUSTER_TOKEN", "two\nlines")
    monkeypatch.setenv("MUSTER_URL", "http://127.0.0.1:1")
    assert muster("queue").err.startswith("MUSTER_TOKEN: allowed: one line of plain letters")
    monkeypatch.delenv("MUSTER_TOKEN")
    monkeypatch.delenv("MUSTER_URL")
    (home / "endpoint.json").write_text("{")
    assert "cannot be read as a daemon's file. Hint: restart the daemon" in muster("queue").err
    monkeypatch.setenv("MUSTER_URL", "ftp://x")
    allowed = "allowed: http://HOST:PORT, https://HOST, unix:///PATH"
    assert muster("queue").err == f"MUSTER_URL: found 'ftp://x'; {allowed}\n"


def test_the_daemon_is_found_by_its_home(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUSTER_URL")
    write_endpoint(api.home)
    assert muster("queue") == Outcome(0, "No job has been submitted yet.\n", "")
    write_endpoint(api.home, starting=True)
    starting = "The daemon is starting; waiting for it.\n"
    assert muster("queue") == Outcome(0, "No job has been submitted yet.\n", starting)


def test_the_queue_is_watched_until_interrupted(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_jobs(api)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    assert muster("queue", "--watch").status == 0


def test_no_text_of_a_job_steers_the_terminal(api: Serving, muster: Muster) -> None:
    hostile = "a\x1b[2J\x9b31m\u202eb\a"
    asked = a_request(command=(hostile,), directory=f"/{hostile}", held=True)
    # An old store has such a name, which is refused today.
    asked = JobRequest.model_construct(**vars(asked) | {"name": "a\x9b31m\u202eb"})
    running, ended = api.store.submit([Submission("ann", asked)] * 2)
    changes = StoreChanges()
    changes.job(ended, state=State.FAILED, finished=5.0, message=hostile)
    api.store.commit(changes)
    for line in (f"status {running}", f"status {ended}", f"why {ended}", "queue --all", "top --once"):
        shown = muster(*line.split())
        assert shown.status == 0
        assert re.search(r"a(\\x1b\[2J)?\\x9b31m", shown.out), line
        assert not set("\x1b\x9b\u202e\a") & set(shown.out), line
