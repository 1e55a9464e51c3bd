"""Random worlds for Hypothesis: clusters, traces, schedulers, options; and runs that are watched at every step."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.cluster.ledger_arrays import ENTRIES, ROWS_USED
from muster.cluster.structured import zero_records
from muster.schedulers import registry
from muster.schedulers.composed import Composed
from muster.simulation import Failures, Options, Run, simulate
from muster.simulation.engine import SimulationEngine
from muster.workload.trace import Trace, trace_of

MODELS = ("", "resnet18", "gnmt", "m5")
"""Insensitive, and sensitive in different ways."""


HURRY = {"quantum_seconds": "7", "lease_seconds": "9", "trial_seconds": "6"}
"""Settings in the measure of these small runs."""


@dataclass(frozen=True)
class Case:
    """One run to be."""

    cluster: Cluster
    rows: list[dict[str, Any]]
    scheduler: str
    settings: Mapping[str, str]
    options: Options

    @property
    def trace(self) -> Trace:
        return trace_of({key: [row[key] for row in self.rows] for key in self.rows[0]}, "random")

    def but(self, **options: Any) -> Case:
        """The same with other options."""
        return replace(self, options=replace(self.options, **options))


class WatchedEngine(SimulationEngine):
    """Looks at the books after everything that happens, and gives up a run that does not end."""

    DECISIONS_AT_MOST = 20_000
    REPEATS_AT_MOST = 2
    """Decisions in a row at one moment that change nothing and that no event calls for."""

    def _happen(self, now: float, finish: float, lease_end: float) -> bool:
        assert now >= self.now
        asked = super()._happen(now, finish, lease_end)
        self._look()
        return asked

    def _decide(self, now: float) -> None:
        super()._decide(now)
        self._look()
        assert len(self._decision_seconds) < self.DECISIONS_AT_MOST, "this run does not end"
        assert self._repeats <= self.REPEATS_AT_MOST, f"a plan asks for another decision at {now} in vain"

    def _look(self) -> None:
        books = self.ledger.books
        assert books.totals[ROWS_USED] <= len(books.rows)
        assert books.totals[ENTRIES] <= len(books.journal)
        assert not self.ledger.balance().any()
        for amounts in (books.nodes["free"], books.nodes["releasing"], books.nodes["unavailable"]):
            assert (amounts >= 0).all()
        up = books.nodes[books.nodes["up"] == 1]
        assert (books.totals[:4] == up["free"].sum(axis=0)).all()
        whole = (books.devices["holders"] == 0) & (books.nodes["up"] == 1)[:, None]
        for node, free in zip(books.nodes, whole, strict=True):
            mask = sum(1 << gpu for gpu in range(int(node["gpus"])) if free[gpu])
            assert node["free_mask"] == mask
            assert node["free_gpus"] == mask.bit_count()


class AskedEveryRound(WatchedEngine):
    """Skips no round."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more, ask_every_round=True)


def just_enough(array: Any, needed: int) -> Any:
    """Return records with room for no more than is needed: what is written beside them is noticed."""
    grown = zero_records(max(needed, len(array)), array.dtype)
    grown[: len(array)] = array
    return grown


def simulated(case: Case, engine: type[SimulationEngine] = WatchedEngine) -> Run:
    """The case's run under a watched engine."""
    scheduler = registry.build(case.scheduler, case.settings)
    with (
        mock.patch.object(sys.modules["muster.simulation.simulate"], "SimulationEngine", engine),
        mock.patch("muster.cluster.ledger._grown", just_enough),
    ):
        return simulate(case.trace, case.cluster, scheduler, case.options)


def shipped(slot: str) -> list[str]:
    """Names of all parts that fill this slot alone."""
    return [info.name for info in registry.parts() if info.slot == slot]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """One to six nodes of one to eight GPUs, in islands and racks, of two types, some labelled."""
    nodes = []
    for at in range(draw(st.integers(1, 6))):
        gpus = draw(st.integers(1, 8))
        nodes.append(
            Node(
                name=f"node{at}",
                type_name=f"{gpus}gpu",
                rack=at % 2 if at else 0,
                gpus=gpus,
                gpu_type=draw(st.sampled_from(["v100", "p100"])),
                gpus_per_island=draw(st.integers(1, gpus)),
                cpus=gpus * draw(st.sampled_from([2.0, 3.0, 7.5])),
                memory_gb=gpus * draw(st.sampled_from([40.0, 62.5])),
                storage_gb_per_s=gpus * 0.0625,
                nic_gb_per_s=1.25,
                labels=("fast",) if draw(st.booleans()) else (),
            )
        )
    return Cluster("random", tuple(nodes), ("rack0", "rack1")[: min(len(nodes), 2)])


@st.composite
def queues(draw: st.DrawFn, cluster: Cluster) -> list[dict[str, Any]]:
    """Up to fourteen jobs that the cluster can hold, with all that a trace may say about them."""
    rows = []
    for number in range(draw(st.integers(1, 14))):
        constraint = draw(st.sampled_from(["", "", "", "gpu_type=v100", "label=fast"]))
        if not room(cluster, constraint):
            constraint = ""
        gpus = min(draw(st.sampled_from([1, 1, 1, 2, 2, 4, 7, 16])), room(cluster, constraint))
        milli = draw(st.sampled_from([1000, 1000, 250, 400, 999])) if gpus == 1 else 1000
        share = gpus * milli / 1000
        rows.append(
            {
                "job_id": str(number),
                "submit_seconds": draw(st.integers(0, 60)) + draw(st.sampled_from([0.0, 0.25, 0.3])),
                "duration_seconds": draw(st.integers(1, 50)) * 1.0,
                "gpus": gpus,
                "gpu_milli": milli,
                "min_gpus": draw(st.integers(1, gpus)),
                "max_gpus": gpus + draw(st.integers(0, 3)) * (milli == 1000),
                "model": draw(st.sampled_from(MODELS)),
                "tenant": draw(st.sampled_from("ab")),
                "user": draw(st.sampled_from("xyz")),
                "priority": float(draw(st.integers(0, 2))),
                "preemptible": draw(st.sampled_from([True, True, False])),
                "min_runtime_seconds": draw(st.sampled_from([0.0, 0.0, 12.0])),
                "constraint": constraint,
                "cpus": draw(st.sampled_from([None, 0.5, 2.0])) and share * draw(st.sampled_from([0.5, 2.0])),
                "memory_gb": draw(st.sampled_from([None, 1.0])) and share * 17.3,
            }
        )
    return rows


def room(cluster: Cluster, constraint: str) -> int:
    """GPUs that a job of this constraint may use."""
    return sum(node.gpus for node in cluster.nodes if allowed(node, constraint))


def allowed(node: Node, constraint: str) -> bool:
    """Whether a job of this constraint may run on the node."""
    key, _, value = constraint.partition("=")
    return not key or (value == node.gpu_type if key == "gpu_type" else value in node.labels)


@st.composite
def schedulers(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """Any order with any allocation and placement that ship, sometimes behind quotas, in a hurry; or Gandiva."""
    if draw(st.integers(0, 5)) == 5:
        return "gandiva", {
            "trial_seconds": HURRY["trial_seconds"],
            "most_turns": draw(st.sampled_from("129")),
        }
    # Orders of other simulators keep to events of their own, so there are none to be skipped.
    order = draw(st.sampled_from([name for name in shipped("queue_order") if not name.endswith("-sim")]))
    apart = [f"{a}+{p}" for p in shipped("placement") for a in shipped("allocation")]
    name = f"{order}+{draw(st.sampled_from([*apart, *shipped('allocation+placement')]))}"
    settings: dict[str, str] = {}
    if draw(st.integers(0, 3)) == 3:
        name = f"quota+{name}"
        settings["guaranteed"] = draw(st.sampled_from(["", "a:2"]))
        settings["weights"] = draw(st.sampled_from(["", "a:2,b:1"]))
    known = {
        setting.name for info in registry.parts() if info.name in name.split("+") for setting in info.settings
    }
    settings |= {key: value for key, value in HURRY.items() if key in known}
    if "fit" in known:
        settings["fit"] = draw(st.sampled_from(["best", "published"]))
    if draw(st.integers(0, 3)) == 3:
        settings["promote_after_seconds"] = "20"
    if isinstance(registry.build(name), Composed):
        if draw(st.integers(0, 3)) == 3:
            settings["strict"] = "true"
        if draw(st.integers(0, 3)) == 3:
            settings["preemptive"] = draw(st.sampled_from(["true", "false"]))
    return name, settings


@st.composite
def cases(
    draw: st.DrawFn, *, failing: bool = True, rounds: st.SearchStrategy[float | None] | None = None
) -> Case:
    """A whole random run. Restarts cost less than a round, or no job would ever get anywhere."""
    cluster = draw(clusters())
    name, settings = draw(schedulers())
    failures = None
    if failing and draw(st.integers(0, 2)) == 2:
        failures = Failures(draw(st.sampled_from([150.0, 600.0])), draw(st.sampled_from([5.0, 40.0])))
    options = Options(
        round_seconds=draw(rounds if rounds is not None else st.sampled_from([None, 5.0, 7.5])),
        restart_cost_seconds=draw(st.sampled_from([0.0, 0.0, 3.0])),
        resize_restarts=draw(st.booleans()),
        release_seconds_per_gpu=draw(st.sampled_from([0.0, 0.0, 0.5])),
        knowledge=draw(st.sampled_from(["oracle", "oracle", "none", "noisy:0.7"])),
        failures=failures,
        checkpoint_seconds=4.0,  # or jobs would never get through between two failures
        seed=draw(st.integers(0, 3)),
    )
    return Case(cluster, draw(queues(cluster)), name, settings, options)


def tables(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The record's tables as rows."""
    record = run.record
    names = ("jobs", "allocations", "decisions", "reasons")
    return {name: getattr(record, name).to_dicts() for name in names}


def free_gpus_after(run: Run, cluster: Cluster, moment: float) -> float:
    """GPUs that no allocation of the record holds right after a moment; one that several share is held once."""
    held = run.record.allocations
    now = held.filter((held["from_seconds"] <= moment) & (held["to_seconds"] > moment))
    own, shared = now.filter(now["slice_group"].is_null()), now.filter(now["slice_group"].is_not_null())
    distinct = shared.explode("gpu_ids").select("node", "gpu_ids").n_unique() if len(shared) else 0
    return float(cluster.total_gpus - np.sum(own["gpus"].to_numpy()) - distinct)
