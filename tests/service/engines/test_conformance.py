"""The engines that Muster ships keep the promises of the interface."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.service.engines import Launch
from muster.service.engines.factory import EngineContext, EngineOptions
from muster.service.engines.fake import FakeEngine, Pace
from muster.service.engines.registry import FAKE, LOCAL, engine_factory
from muster.service.store.rows import JobRow
from tests.service.engines.bench import Bench
from tests.service.engines.conformance import Case, EngineConformance, ProcessCase, ProcessConformance, Work


class FakeCase(Case):
    """A clock that moves when somebody waits."""

    def __init__(self, folder: Path) -> None:
        self.factory = engine_factory(FAKE)
        self._folder, self._seconds = folder, 1000.0
        self._works: dict[int, Work] = {}
        self.reopen()

    def reopen(self) -> None:
        cluster = parse_cluster("2x2gpu,4cpu,8gb")
        self.engine = FakeEngine(self._folder / "engine", cluster, self._pace, self.now)

    def launch_of(self, job: int, epoch: int, work: Work) -> Launch:
        self._works[job] = work
        allocations = (NodeAllocation("node-0", (0,), 1.0, 1.0, 0.1),)
        run_dir = self._folder / str(job) / "run"
        return Launch(
            job, epoch, run_dir, run_dir.parent, ("true",), self._folder, {}, allocations, (1,), None
        )

    def now(self) -> float:
        return self._seconds

    def pause(self) -> None:
        self._seconds += 1.0

    def _pace(self, job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        steps = 10.0 if self._works[job] is Work.SHORT else float("inf")
        return Pace(steps, 1.0)


class LocalCase(ProcessCase):
    """Real processes on this machine, by the options of `muster serve`."""

    def __init__(self, folder: Path) -> None:
        self.factory = engine_factory(LOCAL)
        self._configured = self.factory.configure(EngineOptions(gpus=2))
        self._bench = Bench(folder)
        self.reopen()

    def reopen(self) -> None:
        rows: dict[int, JobRow] = {}
        self.engine = self._configured.open(
            EngineContext(self._bench.folder / "engine", rows.__getitem__, dict)
        )

    def launch_of(self, job: int, epoch: int, work: Work) -> Launch:
        command = ["sleep", "600"] if work is Work.ENDLESS else ["true"]
        return self._bench.described(job, epoch, command, memory_gb=0.1)

    def now(self) -> float:
        return time.time()

    def pause(self) -> None:
        time.sleep(0.003)

    def run(
        self,
        command: Sequence[str],
        *,
        job: int = 1,
        epoch: int = 1,
        ranks: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        launch = self._bench.described(
            job, epoch, command, ranks=ranks, memory_gb=1.0, environment=environment or {}
        )
        self.send(launch)

    @property
    def directory(self) -> Path:
        return self._bench.folder

    def run_dir(self, job: int) -> Path:
        return self._bench.folder / str(job) / "run"

    def clear(self) -> None:
        """Ends and forgets all; nothing may be left of it."""
        for one in self.starts():
            self.kill(one.job, one.epoch)
        for one in self.starts():
            self.end(one.job, one.epoch)
            self.forget(one.job, one.epoch)
            self.until(partial(self._is_gone, one.job, one.epoch), "the end of all processes")
        assert list((self._bench.folder / "engine").iterdir()) == []

    def _is_gone(self, job: int, epoch: int) -> bool:
        return self._bench.left(job, epoch) == []


class TestFakeEngine(EngineConformance):
    @pytest.fixture
    def case(self, tmp_path: Path) -> FakeCase:
        return FakeCase(tmp_path)


class TestLocalEngine(ProcessConformance):
    @pytest.fixture
    def case(self, tmp_path: Path) -> Iterator[LocalCase]:
        case = LocalCase(tmp_path)
        case.engine.gang_grace_seconds = 0.2  # type: ignore[attr-defined]
        yield case
        case.clear()

    @pytest.fixture
    def process_case(self, case: LocalCase) -> LocalCase:
        return case
