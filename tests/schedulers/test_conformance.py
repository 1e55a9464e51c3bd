"""Every scheduler is pure: it decides twice alike, leaves the ledger's bytes, and uses no clock, chance or files."""

from __future__ import annotations

import gc
import io
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import perf_counter_ns
from types import FrameType
from typing import Any

import numpy as np
import pytest

from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import ROWS_USED
from muster.schedulers.actions import actions_of
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State
from muster.schedulers.pending import pending_jobs
from muster.schedulers.reasons import REASONS, reason
from muster.schedulers.registry import build, parts, presets
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.test_example_policies import Toy
from tests.simulation.fixed_runs import RUNS, FixedRun

_OUTSIDE = frozenset(
    [
        "_io",
        "_posixsubprocess",
        "_random",
        "_socket",
        "_thread",
        "io",
        "posix",
        "secrets",
        "select",
        "socket",
        "time",
    ]
)
"""The modules in C of clock, chance, files, network and processes."""
_OUTSIDE_TYPES = (random.Random, io.IOBase)
_OUTSIDE_CALLS = frozenset({"input", "print", "date.today", "datetime.now", "datetime.utcnow"})


_OF_NEEDS = [code for name, code in REASONS.items() if reason(code).a == "needs"]
"""Reasons that say how many GPUs a job needs."""


class NotPure(AssertionError):
    """A scheduler called something that a pure function cannot."""


def _forbid(_: FrameType, event: str, called: Any) -> None:
    """Raise if a function in C is none of its arguments alone, whatever name the caller has for it."""
    if event != "c_call":
        return
    module, name = getattr(called, "__module__", None), called.__qualname__
    of_outside = isinstance(getattr(called, "__self__", None), _OUTSIDE_TYPES)
    if module in _OUTSIDE or name in _OUTSIDE_CALLS or of_outside:
        raise NotPure(f"a scheduler calls {name}")


@contextmanager
def nothing_outside() -> Iterator[None]:
    """Make everything that is not a function of its arguments raise."""

    def forbidden(name: str) -> Callable[..., Any]:
        def call(*_: object, **__: object) -> Any:
            raise NotPure(f"a scheduler calls {name}")

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in np.random.__all__:  # Compiled: no profiler sees them called.
            patch.setattr(np.random, name, forbidden(f"numpy.random.{name}"))
        patch.setattr(type(os.environ), "__getitem__", forbidden("os.environ"))
        before, of_others = sys.getprofile(), gc.callbacks[:]
        gc.callbacks.clear()  # Hypothesis hangs a clock on the garbage collector.
        sys.setprofile(_forbid)
        try:
            yield
        finally:
            sys.setprofile(before)
            gc.callbacks[:] = of_others


def raw_bytes(ledger: Ledger) -> list[bytes]:
    """All bytes of a ledger that say something."""
    books = ledger.books
    used = books.rows[: books.totals[ROWS_USED]]
    return [array.tobytes() for array in (books.nodes, books.devices, books.heads, books.totals, used)]


def as_text(value: object) -> str:
    """A decision or a state with every number in it."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_text(key)}: {as_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Decision):
        return ", ".join(as_text(getattr(value, name)) for name in value._fields)
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(as_text, value)) + ")"
    return repr(value)


def conforming(scheduler: Scheduler) -> Scheduler:
    """The same scheduler; its first 30 decisions are checked, and then one in 50."""
    decide = scheduler.decide
    asked = 0

    def checked(snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        nonlocal asked
        asked += 1
        if asked > 30 and asked % 50:
            return decide(snapshot, state)
        before, facts = raw_bytes(snapshot.ledger), snapshot.table.facts.tobytes()
        memory = as_text(state)
        first = decide(snapshot, state)  # Outside the checks: a first call may import, which reads files.
        with nothing_outside():
            second = decide(snapshot, state)
        assert raw_bytes(snapshot.ledger) == before
        assert snapshot.table.facts.tobytes() == facts
        assert as_text(state) == memory
        assert as_text(first) == as_text(second)
        decision = first[0]
        holders = set(snapshot.jobs.index[decision.reasons == 0].tolist())
        check_actions(snapshot, decision)
        assert (decision.reason_a[np.isin(decision.reasons, _OF_NEEDS)] > 0).all()
        for pending in pending_jobs(snapshot, decision):
            assert pending.job not in holders
            assert set(pending.blocked_by) <= set(snapshot.jobs.index.tolist()) - {pending.job}
        return first

    object.__setattr__(scheduler, "decide", checked)
    return scheduler


def check_actions(snapshot: Snapshot, decision: Decision) -> None:
    """The typed actions say the same as the arrays."""
    ledger = snapshot.ledger
    for action in actions_of(decision, ledger):
        held = ledger.holding(action.job)
        after = getattr(action, "allocations", ())
        kind = type(action).__name__
        assert (kind == "Start") == (not held)
        assert (kind == "Preempt") == (not after)
        assert action.job not in getattr(action, "makes_room_for", ())


_FIXED = {fixed.scheduler for fixed in RUNS}
_PRESETS = tuple(FixedRun("few", "dally-2x8x8", one.name) for one in presets() if one.name not in _FIXED)


@pytest.mark.parametrize("fixed", [*RUNS, *_PRESETS], ids=lambda one: one.name)
def test_every_decision_of_a_run_is_pure(fixed: FixedRun) -> None:
    fixed.simulated(conforming)


def test_no_part_is_left_out() -> None:
    decided = {part for fixed in (*RUNS, *_PRESETS) for part in named_parts(build(fixed.scheduler))}
    assert {part.name for part in parts()} <= decided


def named_parts(scheduler: Scheduler) -> Iterator[str]:
    """The scheduler's name and those of all its parts."""
    yield scheduler.name
    yield from scheduler.describe()["parts"].values()


KEPT = random.Random(1)


def hidden(array: Any) -> Any:
    """The same array, written although it is shown read-only."""
    array.flags.writeable = True
    return array


class Impure(Toy):
    """Breaks one promise each."""

    def __init__(self, sin: Callable[[Snapshot], object]) -> None:
        super().__init__()
        self.sin = sin

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        self.sin(snapshot)
        with snapshot.transaction() as transaction:
            return self.plan(snapshot, transaction, 2), state


@pytest.mark.parametrize(
    "sin",
    [
        lambda snapshot: time.time(),
        lambda snapshot: perf_counter_ns(),
        lambda snapshot: datetime.now(),
        lambda snapshot: random.random(),
        lambda snapshot: KEPT.random(),
        lambda snapshot: np.random.default_rng(),
        lambda snapshot: np.random.rand(),
        lambda snapshot: np.random.normal(),
        lambda snapshot: Path("/dev/null").read_bytes(),
        lambda snapshot: Path("/dev/null").exists(),
        lambda snapshot: os.environ["HOME"],
        lambda snapshot: print(),
        lambda snapshot: hidden(snapshot.ledger.books.nodes)["free"].__iadd__(1),
        lambda snapshot: hidden(snapshot.table.facts)["done"].fill(1),
    ],
    ids=[
        "clock",
        "imported clock",
        "date",
        "random",
        "kept generator",
        "default_rng",
        "numpy.random",
        "numpy.random.normal",
        "file",
        "file name",
        "environment",
        "output",
        "ledger",
        "job status",
    ],
)
def test_a_scheduler_that_is_not_pure_is_caught(sin: Callable[[Snapshot], object]) -> None:
    with pytest.raises(AssertionError):
        run(jobs_of(job(0, 10)), cluster_of(1), conforming(Impure(sin)))


def test_a_scheduler_that_changes_its_mind_is_caught() -> None:
    asked: list[int] = []

    class Fickle(Toy):
        def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
            asked.append(1)
            with snapshot.transaction() as transaction:
                return self.plan(snapshot, transaction, 2, next_wake=1000.0 + len(asked)), state

    with pytest.raises(AssertionError):
        run(jobs_of(job(0, 10)), cluster_of(1), conforming(Fickle()))


def test_a_scheduler_that_changes_its_state_in_place_is_caught() -> None:
    class Forgetful(Toy):
        def initial(self, cluster: Cluster) -> State:
            return {"asked": False}

        def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
            state["asked"] = True
            with snapshot.transaction() as transaction:
                return self.plan(snapshot, transaction, 2), state

    with pytest.raises(AssertionError):
        run(jobs_of(job(0, 10)), cluster_of(1), conforming(Forgetful()))
