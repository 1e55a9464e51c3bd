"""The Ray engine keeps the promises of the interface, on a real Ray."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.engines import Exit, Launch
from muster.service.engines.ray.connection import RayConnection
from muster.service.engines.ray.engine import RayEngine
from muster.service.engines.registry import engine_factory
from tests.ray.cluster import RayCluster
from tests.service.engines.conformance import ProcessCase, ProcessConformance, Work

pytestmark = pytest.mark.needs_ray


class RayCase(ProcessCase):
    """Agents that several cases share; each of them ends and forgets its starts."""

    def __init__(self, home: Path, folder: Path, connection: RayConnection) -> None:
        self.factory = engine_factory("ray")
        self._home, self._folder, self._connection = home, folder, connection
        self.reopen()

    def reopen(self) -> None:
        self.engine = RayEngine(self._home, self._connection)

    def launch_of(self, job: int, epoch: int, work: Work) -> Launch:
        return self.described(job, epoch, ["sleep", "600"] if work is Work.ENDLESS else ["true"])

    def described(
        self,
        job: int,
        epoch: int,
        command: Sequence[str],
        *,
        nodes: Sequence[str] = (),
        ranks: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> Launch:
        """A start with one GPU on each of the nodes, and so many ranks there."""
        names = nodes or [f"node{1 + job % 3}"]
        return Launch(
            job=job,
            epoch=epoch,
            run_dir=self.run_dir(job),
            output_dir=self._folder / str(job) / "output",
            command=tuple(command),
            directory=self._folder,
            environment=environment or {},
            allocations=tuple(NodeAllocation(name, (job % 8,), 1.0, 1.0) for name in names),
            ranks=(ranks,) * len(names),
            user=None,
        )

    def now(self) -> float:
        return time.time()

    def pause(self) -> None:
        time.sleep(0.02)

    def run(
        self,
        command: Sequence[str],
        *,
        job: int = 1,
        epoch: int = 1,
        ranks: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.send(self.described(job, epoch, command, ranks=ranks, environment=environment))

    @property
    def directory(self) -> Path:
        return self._folder

    def run_dir(self, job: int) -> Path:
        return self._folder / str(job) / "run"

    def clear(self) -> None:
        """End and forget all."""
        for one in self.starts():
            if one.ended is None:
                self.kill(one.job, one.epoch)
        for one in self.starts():
            self.end(one.job, one.epoch)
            self.forget(one.job, one.epoch)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """One store for all cases: an agent serves one store at a time."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


class TestRayEngine(ProcessConformance):
    @pytest.fixture
    def case(self, cluster: RayCluster, connection: RayConnection, home: Path) -> Iterator[RayCase]:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o711)
            case = RayCase(home, Path(folder), connection)
            yield case
            case.clear()

    @pytest.fixture
    def process_case(self, case: RayCase) -> RayCase:
        return case

    def test_nothing_is_left_on_the_nodes(self, case: RayCase, cluster: RayCluster) -> None:
        case.send(case.described(1, 1, ["true"], nodes=cluster.nodes))
        case.end(1)
        case.forget(1)
        assert list(cluster.agents_home.glob("*/*/starts/*")) == []

    def test_the_ranks_of_a_gang_are_numbered_over_nodes(self, case: RayCase) -> None:
        words = ["sh", "-c", "echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT"]
        case.send(case.described(1, 1, words, nodes=["node3", "node1"], ranks=2))
        assert case.end(1).ended is Exit.COMPLETED
        said = [case.output(1, rank).split() for rank in range(4)]
        assert [words[:3] for words in said] == [[f"{rank}", f"{rank % 2}", "4"] for rank in range(4)]
        assert len({words[3] for words in said}) == 1

    def test_a_rank_that_fails_ends_the_gang_on_all_nodes(self, case: RayCase, cluster: RayCluster) -> None:
        words = ["sh", "-c", 'if [ "$RANK" = 1 ]; then exit 9; fi; exec sleep 600']
        case.send(case.described(1, 1, words, nodes=["node1", "node2"]))
        end = case.end(1)
        assert (end.ended, end.status) == (Exit.FAILED, 9)
        case.until(lambda: not cluster.started_pids("node1"), "the end of the other part")

    def test_a_signal_reaches_every_node_of_a_gang_once(self, case: RayCase) -> None:
        source = "import signal, sys, time\n"
        source += "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(75)))\n"
        source += "print('up', flush=True)\ntime.sleep(600)"
        case.send(case.described(1, 1, ["python3", "-c", source], nodes=["node1", "node2"]))
        for rank in (0, 1):
            case.prints("up", rank)
        for _ in range(2):
            case.signal(1, 1)
        assert (case.end(1).ended, case.end(1).status) == (Exit.STOPPED, 75)
        assert [case.output(1, rank) for rank in (0, 1)] == ["up\nsaved\n"] * 2
