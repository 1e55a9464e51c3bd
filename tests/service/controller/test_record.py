"""The record, the metrics, the queue and the nodes agree at every moment of a daemon's many lives."""

from __future__ import annotations

import io
import random
import tarfile
from collections import Counter
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.report.metrics import summarise
from muster.report.record import read_record
from muster.report.series import chart_series
from muster.report.timeline import capacity
from muster.runtime.records import Record
from muster.service.engines import Exit, Observed
from muster.service.engines.fake import FakeEngine
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.store.rows import ENDED, State, StateRequest, Submission

from ..serving import Serving, serving_on
from .test_fake_nodes import World

MOMENTS = 100
LIVES = [
    ("las+tune-plus", "2x2gpu,6cpu,100gb"),
    ("fifo", "2x2gpu,6cpu,100gb"),
    ("fifo", "3x2gpu,6cpu,100gb"),
    ("fifo", "3x2gpu,6cpu,100gb"),  # nothing changes
    ("srtf+tune", "1x4gpu,12cpu,200gb"),
]
_OUTCOMES = {state: state.value for state in ENDED}


class FailingWorld(World):
    """A world where every fifth job fails when it is done."""

    gone: AbstractSet[str] = frozenset()
    """Nodes that the cluster before had and this one has not."""

    def an_engine(self) -> FakeEngine:
        engine = super().an_engine()
        observe = engine.observe

        def fails(one: Observed) -> bool:
            return one.ended is Exit.COMPLETED and one.job % 5 == 0

        def observe_failures() -> list[Observed]:
            return [
                Observed(one.job, one.epoch, Exit.FAILED, one.since, 1) if fails(one) else one
                for one in observe()
            ]

        engine.observe = observe_failures  # type: ignore[method-assign]
        return engine

    def begin_with(self, scheduler: str, cluster: str) -> None:
        """The next daemon's life, with another scheduler and cluster."""
        before = {node.name for node in self.cluster.nodes}
        self.policy, self.cluster = live_scheduler(scheduler, {}, 20.0), parse_cluster(cluster)
        self.gone = before - {node.name for node in self.cluster.nodes}
        self.die()


def test_record_metrics_queue_and_nodes_agree(tmp_path: Path) -> None:
    chance = random.Random(12)
    world = FailingWorld(tmp_path / "home", *LIVES[0][:1])
    seen: Counter[str] = Counter()
    for life, (scheduler, cluster) in enumerate(LIVES):
        if life:
            world.begin_with(scheduler, cluster)
        with serving_on(world.store, world.status, world.folder) as api:
            for moment in range(MOMENTS // len(LIVES)):
                _act(world, chance)
                world.turn(chance.uniform(0.5, 60.0))
                world.seconds += 0.01
                record = _exported(api, tmp_path / f"{life}-{moment}")
                seen += _check(world, api, record)
        changes = [since for since, _ in world.store.configurations()]
        assert changes == sorted(changes)
        assert len(changes) == len(set(LIVES[: life + 1]))
    world.store.close()
    assert set(seen) >= {*State, "drained", "restarts"}, seen


def _act(world: FailingWorld, chance: random.Random) -> None:
    """Something that an owner or an operator does."""
    act = chance.choice(["submit", "submit", "cancel", "hold", "release", "drain", "undrain", "nothing"])
    jobs = [row.id for row in world.store.living()]
    if act == "submit":
        for _ in range(chance.randint(1, 4)):
            gpus, steps = chance.choice([1, 1, 2, 4]), chance.randint(20, 400)
            limit = chance.choice([None, None, 60.0])
            job = JobRequest(
                name="job", command=("true",), directory="/", gpus=gpus, steps=steps, time_limit_seconds=limit
            )
            world.store.submit([Submission("ann", job)])
    elif act in ("drain", "undrain"):
        world.store.drain(chance.choice(world.cluster.nodes).name, act == "drain")
    elif act != "nothing" and jobs:
        with suppress(InputError):
            world.store.request_state(chance.choice(jobs), StateRequest(act))


def _exported(api: Serving, folder: Path) -> Record:
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(api.ask("GET", "/v1/export").body)) as tar:
        tar.extractall(folder, filter="data")
    assert parse_cluster(str(folder / "cluster.toml")) == api.status.cluster
    return read_record(folder)


def _metrics(api: Serving) -> dict[str, float]:
    samples = [
        sample
        for family in text_string_to_metric_families(api.ask("GET", "/metrics").body.decode())
        for sample in family.samples
    ]
    return {one.name + one.labels.get("state", ""): one.value for one in samples}


def _check(world: FailingWorld, api: Serving, record: Record) -> Counter[str]:
    """All that can be asked says the same; what of it occurred."""
    queue = api.ask("GET", "/v1/queue?limit=1000&" + "&".join(f"state={state}" for state in State)).json
    nodes, metrics = api.ask("GET", "/v1/nodes").json["nodes"], _metrics(api)
    jobs, counts = queue["jobs"], {State(state): count for state, count in queue["counts"].items()}
    states = Counter(State(job["state"]) for job in jobs)
    assert states == Counter({state: count for state, count in counts.items() if count})
    assert all(metrics[f"muster_jobs{state}"] == count for state, count in counts.items())

    total, held = (sum(node[name] for node in nodes) for name in ("gpus", "held_gpus"))
    free = sum(node["gpus"] - node["held_gpus"] for node in nodes if not node["drained"])
    assert [metrics[f"muster_{name}gpus"] for name in ("", "held_", "free_")] == [total, held, free]
    for name, unit in (("cpus", 1.0), ("memory_gb", 1e9)):
        metric = name.replace("_gb", "_bytes")
        assert metrics[f"muster_{metric}"] == pytest.approx(sum(node[name] for node in nodes) * unit)
        assert metrics[f"muster_held_{metric}"] == pytest.approx(
            sum(node[f"held_{name}"] for node in nodes) * unit
        )

    outcomes = {row["job_id"]: row["outcome"] for row in record.jobs.iter_rows(named=True)}
    assert outcomes == {str(job["job_id"]): _OUTCOMES.get(State(job["state"]), "unfinished") for job in jobs}
    now = world.seconds
    open_rows = record.allocations.filter(record.allocations["to_seconds"] == now)
    by_node = Counter({node["name"]: node["held_gpus"] for node in nodes if node["held_gpus"]})
    held_rows: Counter[str] = Counter()
    for row in open_rows.iter_rows(named=True):
        held_rows[row["node"]] += row["gpus"]
    assert {name: held_rows[name] for name in by_node} == by_node
    # What still runs on a machine that was taken out of the cluster is held, and is on no node of it.
    assert set(held_rows) - set(by_node) <= set(world.gone)
    waiting = {str(job["job_id"]): job["reason"] for job in jobs if job["state"] == "queued"}
    last = record.reasons.filter(record.reasons["to_seconds"] == now)
    named = dict(zip(last["job_id"], last["reason"], strict=True))
    assert named == {job: reason for job, reason in waiting.items() if reason != "placed"}

    summary, charts = summarise(record), chart_series(record, "run")
    for kind in ENDED:
        assert summary[kind] == counts[State(kind)]
    assert summary["unfinished"] == counts[State.QUEUED] + counts[State.RUNNING] + counts[State.HELD]
    if jobs:
        assert charts.waiting.values[-1] == counts[State.QUEUED] + counts[State.HELD]
        assert charts.gpu_use.values[-1] * total == pytest.approx(held_rows.total())
        assert capacity(record, "gpus").values[-1] == total
    attained = sum(row.attained_gpu_seconds for row in world.store.jobs(limit=1000))
    lost = sum(row.restart_seconds * row.request.gpus for row in world.store.jobs(limit=1000))
    assert summary["restart_loss"] == (pytest.approx(lost / attained) if attained else None)
    assert 0.0 <= (summary["utilization"]["gpu"] or 0.0) <= 1.0
    assert 0.0 <= (summary["fragmentation"] or 0.0) <= 1.0

    # What ran here used no seed; a page of the record says 0, as for every run without one.
    assert (record.run["rules"]["name"], record.run["seed"]) == ("real", 0)
    newest = record.run["history"][-1]
    assert newest["scheduler"]["name"] == record.scheduler == world.policy.name
    assert [node["name"] for node in newest["cluster"]["nodes"]] == [node["name"] for node in nodes]
    found = Counter(str(state) for state in states)
    found["drained"] = sum(node["drained"] for node in nodes)
    found["restarts"] = int(lost > 0)
    return found
