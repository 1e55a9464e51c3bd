"""A pytest plugin that ends a test which takes too much processor time, and a run that has had enough.

A test over its limit is killed by SIGPROF, also inside compiled code. A run over its limit stops before its next
test; what has passed so far has passed. No process gets more memory than a test needs: compiled code with a mutation
may ask for all there is.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Container, Generator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

TEST_SECONDS, RUN_SECONDS = "MUTATION_TEST_SECONDS", "MUTATION_RUN_SECONDS"
RUNNING = "MUTATION_RUNNING"
"""Names the file that has the name of the test that runs."""

STOPPED_EARLY = "the run has used its time"
_SETTINGS = "_hypothesis_internal_use_settings"
_FEW = 8
_spent = [0.0]
"""Seconds of the run that do not count against its limit, the last one holds."""
_MOST_MEMORY = 6 * 1024**3


def pytest_configure() -> None:
    """Limit the memory, and let Hypothesis search the same examples every time, but not for the smallest that fails."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    settings.register_profile(
        "mutation", derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate]
    )
    settings.load_profile("mutation")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run one test under its limit."""
    Path(os.environ[RUNNING]).write_text(item.nodeid, encoding="utf-8")
    signal.setitimer(signal.ITIMER_PROF, float(os.environ[TEST_SECONDS]))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        if _used_seconds() - _spent[-1] > float(os.environ[RUN_SECONDS]):
            item.session.shouldstop = STOPPED_EARLY


def begin_again() -> None:
    """Count the seconds of the run from now on."""
    _spent.append(_used_seconds())


class FewExamples:
    """A plugin that lets each Hypothesis test try few examples, and notes what fails and what needs no second run."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.settled: set[str] = set()
        """Tests that have passed with all examples that they ask for."""
        self._shortened: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run one test with few examples, and leave it as it was."""
        function = getattr(item.obj, "__func__", item.obj) if isinstance(item, pytest.Function) else None
        if not hasattr(function, _SETTINGS):
            return (yield)
        asked = getattr(function, _SETTINGS)
        if asked.max_examples > _FEW:
            self._shortened.add(item.nodeid)
        setattr(function, _SETTINGS, settings(asked, max_examples=min(asked.max_examples, _FEW)))
        try:
            return (yield)
        finally:
            setattr(function, _SETTINGS, asked)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what became of a test."""
        if report.failed:
            self.failed.append(report.nodeid)
            self.settled.discard(report.nodeid)
        elif report.when == "call" and report.passed and report.nodeid not in self._shortened:
            self.settled.add(report.nodeid)


class Without:
    """A plugin that leaves out tests."""

    def __init__(self, tests: Container[str]) -> None:
        self._tests = tests

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave them out."""
        items[:] = [item for item in items if item.nodeid not in self._tests]


def _used_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
