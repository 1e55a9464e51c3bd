"""A scheduler cannot write into what it is shown: not the jobs, not the ledger, not the snapshot itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Decision, Snapshot, State
from tests.building import cluster_of, finishes, job, jobs_of, run
from tests.schedulers.test_example_policies import TakesCpusBack

TRACE = jobs_of(job(0, 100), job(10, 100))
CLUSTER = cluster_of(2)


class Writes(TakesCpusBack):
    """Writes into the snapshot before it decides."""

    def __init__(self, write: Callable[[Any], object]) -> None:
        super().__init__()
        self.write = write

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        self.write(snapshot)
        return super().decide(snapshot, state)


@pytest.mark.parametrize(
    "write",
    [
        lambda snapshot: snapshot.table.facts["done"].fill(5.0),
        lambda snapshot: snapshot.table.asked["gpus"].fill(2),
        lambda snapshot: snapshot.ledger.books.nodes["free"].fill(0),
        lambda snapshot: snapshot.ledger.books.devices["free_milli"].fill(0),
        lambda snapshot: snapshot.ledger.books.heads.fill(-1),
        lambda snapshot: snapshot.jobs.index.fill(0),
        lambda snapshot: snapshot.ledger.put(0, [NodeAllocation(0, (0,))]),
        lambda snapshot: snapshot.ledger.hold_back(NodeAllocation(0, (0,)), any_gpus=True),
        lambda snapshot: setattr(snapshot, "now", 5.0),
    ],
    ids=["status", "spec", "nodes", "devices", "heads", "numbers", "put", "hold_back", "now"],
)
def test_writing_into_a_snapshot_is_an_error(write: Callable[[Any], object]) -> None:
    with pytest.raises((ValueError, RuntimeError, AttributeError), match=r"read-only|cannot assign"):
        run(TRACE, CLUSTER, Writes(write))


def test_what_a_transaction_tries_is_no_write() -> None:
    tried = [NodeAllocation(0, (0, 1))]

    def writes(snapshot: Snapshot) -> None:
        with snapshot.transaction() as transaction:
            if len(snapshot.ledger.free_ids(0)) == 2:
                transaction.put(0, tried)

    assert finishes(run(TRACE, CLUSTER, Writes(writes))) == finishes(run(TRACE, CLUSTER, TakesCpusBack()))
