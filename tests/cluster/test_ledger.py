"""The ledger: what is tried can be undone to the last bit, and everything always adds up."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster.cluster import Cluster, Node
from muster.cluster import ledger_arrays as b
from muster.cluster import ledger_steps as steps
from muster.cluster.ledger import DoesNotFit, Ledger, NodeAllocation, Transaction, gpu_ids

JOBS = 6
NODES = 3


def cluster_of(*gpus: int) -> Cluster:
    nodes = tuple(
        Node(
            f"n{at}",
            "plain",
            0,
            count,
            "v100",
            max(count, 1),
            3.0 * count + 4,
            62.5 * count,
            0.5 * count,
            1.25,
        )
        for at, count in enumerate(gpus)
    )
    return Cluster("ledger", nodes, ("rack",))


def snapshot(ledger: Ledger) -> list[Any]:
    """All that a ledger says: amounts, devices, and what each job holds (which row says it does not count)."""
    books = ledger.books
    shares = [ledger.holding(job) for job in range(len(books.heads))]
    return [books.nodes.copy(), books.devices.copy(), books.totals[:4].copy(), shares]


def same(one: list[Any], other: list[Any]) -> bool:
    return all(
        np.array_equal(a, c) if isinstance(a, np.ndarray) else a == c for a, c in zip(one, other, strict=True)
    )


def release(ledger: Ledger, job: int) -> None:
    steps.release_job(ledger.reserve(0, 1), job)


def raw_bytes(ledger: Ledger) -> list[bytes]:
    """All bytes that say something: not those of rows that were never used."""
    books = ledger.books
    used = books.rows[: books.totals[b.ROWS_USED]]
    return [array.tobytes() for array in (books.nodes, books.devices, books.heads, books.totals, used)]


shares = st.builds(
    lambda node, gpus, milli, cpus, memory, storage, group: NodeAllocation(
        node,
        tuple(sorted(gpus)),
        cpus=cpus,
        memory_gb=memory,
        storage_gb_per_s=storage,
        milli=milli if group < 0 else 1000,
        group=group,
    ),
    st.integers(0, NODES - 1),
    st.sets(st.integers(0, 3), max_size=3),
    st.sampled_from([1000, 1000, 250, 333, 999]),
    st.sampled_from([0.0, 1.0, 2.7, 1e-6, 9.0]),
    st.sampled_from([0.0, 0.1, 62.5]),
    st.sampled_from([0.0, 0.3, 0.000001]),
    st.sampled_from([-1, -1, -1, 0, 3]),
)


class LedgerMachine(RuleBasedStateMachine):
    """Puts, releases, undoes and settles at random; nodes fail and come back between the steps."""

    @initialize(delayed=st.booleans())
    def begin(self, delayed: bool) -> None:
        self.ledger = Ledger(cluster_of(4, 4, 2), JOBS)
        self.ledger.books.totals[b.DELAYED] = delayed
        self.marks: list[tuple[int, list[Any]]] = []
        self.releasing: list[int] = []

    @rule(job=st.integers(0, JOBS - 1), wanted=st.lists(shares, min_size=1, max_size=3))
    def put(self, job: int, wanted: list[NodeAllocation]) -> None:
        before = snapshot(self.ledger)
        outside = [
            share for share in wanted if share.gpu_ids and max(share.gpu_ids) >= self.gpus_of(share.node)
        ]
        try:
            self.ledger.put(job, wanted)
        except DoesNotFit:
            assert same(before, snapshot(self.ledger))
        else:
            assert not outside
            assert self.ledger.holding(job) == wanted

    def gpus_of(self, node: int) -> int:
        return self.ledger.cluster.nodes[node].gpus

    @rule(job=st.integers(0, JOBS - 1))
    def release(self, job: int) -> None:
        release(self.ledger, job)
        assert not self.ledger.holds(job)

    @rule(steps=st.lists(st.tuples(st.integers(0, JOBS - 1), st.lists(shares, max_size=2)), max_size=4))
    def decide(self, steps: list[tuple[int, list[NodeAllocation]]]) -> None:
        """A transaction leaves every byte as it was; carried out, its changes lead where it had been."""
        self.settle()
        before, held_before = raw_bytes(self.ledger), snapshot(self.ledger)
        with Transaction(self.ledger) as transaction:
            for job, wanted in steps:
                if not wanted:
                    transaction.release(job)
                    continue
                with suppress(DoesNotFit):
                    transaction.put(job, wanted)
            then, changes = snapshot(self.ledger), transaction.take_changes()
        assert raw_bytes(self.ledger) == before
        differ = [job for job in range(JOBS) if held_before[3][job] != then[3][job]]
        assert sorted(changes.jobs.tolist()) == differ
        self.ledger.carry_out(changes)
        assert snapshot(self.ledger)[3] == then[3]
        if not self.ledger.books.totals[
            b.DELAYED
        ]:  # Else what was put and released again counts as releasing.
            assert same(then, snapshot(self.ledger))

    @rule()
    def mark(self) -> None:
        self.marks.append((int(self.ledger.books.totals[b.ENTRIES]), snapshot(self.ledger)))

    @precondition(lambda self: self.marks)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.marks) - 1))
        mark, then = self.marks[at]
        steps.undo_to(self.ledger.books, mark)
        assert same(then, snapshot(self.ledger))
        del self.marks[at + 1 :]

    @rule()
    def settle(self) -> None:
        """As a world does: chains that ended are dropped or go on releasing; the journal is empty again."""
        books = self.ledger.books
        for entry in books.journal[: books.totals[b.ENTRIES]].copy():
            if entry["kind"] == b.RELEASE:
                if books.totals[b.DELAYED]:
                    self.releasing.append(int(entry["chain"]))
                else:
                    steps.drop_rows(books, entry["chain"])
        books.totals[b.ENTRIES] = 0
        self.marks.clear()

    @precondition(lambda self: self.releasing)
    @rule()
    def end_a_release(self) -> None:
        self.settle()
        steps.end_release(self.ledger.books, self.releasing.pop(0))

    @rule(node=st.integers(0, NODES - 1))
    def fail(self, node: int) -> None:
        """A world stops the jobs of a node before it takes it down."""
        books = self.ledger.books
        if not books.nodes[node]["up"]:
            return
        for job in range(JOBS):
            if any(share.node == node for share in self.ledger.holding(job)):
                release(self.ledger, job)
        self.settle()
        steps.take_down(books, node)
        assert not books.nodes[node]["free"].any()

    @rule(node=st.integers(0, NODES - 1))
    def repair(self, node: int) -> None:
        self.settle()
        if not self.ledger.books.nodes[node]["up"]:
            steps.bring_up(self.ledger.books, node)

    @invariant()
    def adds_up(self) -> None:
        if not hasattr(self, "ledger"):
            return
        books = self.ledger.books
        assert not self.ledger.balance().any()
        assert (books.nodes["free"] >= 0).all()
        assert (books.totals[:4] == books.nodes["free"].sum(axis=0)).all()
        for node in range(NODES):
            up = bool(books.nodes[node]["up"])
            free = [
                gpu for gpu in range(self.gpus_of(node)) if books.devices[node, gpu]["holders"] == 0 and up
            ]
            assert list(self.ledger.free_ids(node)) == free
            assert books.nodes[node]["free_gpus"] == len(free)

    @invariant()
    def no_gpu_is_held_twice(self) -> None:
        if not hasattr(self, "ledger"):
            return
        held: dict[tuple[int, int], list[NodeAllocation]] = {}
        for job in range(JOBS):
            for share in self.ledger.holding(job):
                for gpu in share.gpu_ids:
                    held.setdefault((share.node, gpu), []).append(share)
        for holders in held.values():
            alone = all(share.group < 0 for share in holders)
            one_group = len({share.group for share in holders}) == 1
            assert sum(share.milli for share in holders) <= 1000 if alone else one_group


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_what_does_not_fit_says_why_and_leaves_no_trace() -> None:
    ledger = Ledger(cluster_of(2), 2)
    ledger.put(0, [NodeAllocation(0, (0,), cpus=3.0)])
    before = snapshot(ledger)
    for shares_, why in (
        ([NodeAllocation(0, (0,))], "a GPU is taken"),
        ([NodeAllocation(0, (1,), cpus=7.1)], "the node has less of a resource free"),
        ([NodeAllocation(5, (1,))], "the node is down or does not exist"),
        ([NodeAllocation(0, (1,)), NodeAllocation(0, (1,))], "a GPU is taken"),
    ):
        with pytest.raises(DoesNotFit, match=why):
            ledger.put(1, shares_)
        assert same(before, snapshot(ledger))


def test_shares_of_a_gpu_add_up_to_one() -> None:
    ledger = Ledger(cluster_of(1), 4)
    for job, milli in enumerate((333, 333, 334)):
        ledger.put(job, [NodeAllocation(0, (0,), milli=milli)])
    assert ledger.free()[b.GPU] == 0
    with pytest.raises(DoesNotFit):
        ledger.put(3, [NodeAllocation(0, (0,), milli=1)])
    release(ledger, 1)
    assert ledger.free()[b.GPU] == pytest.approx(0.333)
    assert ledger.free_ids(0) == ()


def test_a_time_slice_group_takes_the_gpu_once() -> None:
    ledger = Ledger(cluster_of(1), 3)
    ledger.put(0, [NodeAllocation(0, (0,), group=7)])
    ledger.put(1, [NodeAllocation(0, (0,), group=7)])
    assert ledger.free()[b.GPU] == 0
    for stranger in (
        NodeAllocation(0, (0,)),
        NodeAllocation(0, (0,), group=8),
        NodeAllocation(0, (0,), milli=1),
    ):
        with pytest.raises(DoesNotFit):
            ledger.put(2, [stranger])
    release(ledger, 0)
    assert ledger.free()[b.GPU] == 0
    release(ledger, 1)
    assert ledger.free()[b.GPU] == 1


def test_what_is_releasing_is_not_free_until_it_ends() -> None:
    ledger = Ledger(cluster_of(2), 2)
    ledger.books.totals[b.DELAYED] = 1
    ledger.put(0, [NodeAllocation(0, (0, 1), cpus=6.0)])
    chain = int(ledger.books.heads[0])
    release(ledger, 0)
    assert ledger.free()[b.GPU] == 0
    assert ledger.books.nodes[0]["releasing"][b.CPU] == 6 * b.MICRO
    steps.end_release(ledger.books, chain)
    assert ledger.free()[b.GPU] == 2
    assert not ledger.balance().any()


def test_gpu_ids_of_a_mask() -> None:
    assert gpu_ids(0b1011) == (0, 1, 3)
    assert gpu_ids(0) == ()


def test_changes_that_do_not_fit_leave_the_ledger_as_it_was() -> None:
    ledger = Ledger(cluster_of(2), 2)
    with Transaction(ledger) as transaction:
        transaction.put(0, [NodeAllocation(0, (0,))])
        transaction.put(1, [NodeAllocation(0, (1,))])
        changes = transaction.take_changes()
    ledger.put(1, [NodeAllocation(0, (0,))])
    before = snapshot(ledger)
    ledger.books.heads[1] = -1  # A job that the changes do not know of holds the GPU.
    with pytest.raises(DoesNotFit, match="a GPU is taken"):
        ledger.carry_out(changes)
    ledger.books.heads[1] = 0
    assert same(before, snapshot(ledger))


def test_a_transaction_that_raises_leaves_every_byte() -> None:
    ledger = Ledger(cluster_of(2), 2)
    before = raw_bytes(ledger)
    with suppress(DoesNotFit), Transaction(ledger) as transaction:
        transaction.put(0, [NodeAllocation(0, (0,))])
        transaction.put(1, [NodeAllocation(0, (0,))])
    assert raw_bytes(ledger) == before


def test_transactions_do_not_overlap() -> None:
    ledger = Ledger(cluster_of(2), 2)
    with Transaction(ledger) as transaction:
        transaction.put(0, [NodeAllocation(0, (0,))])
        with pytest.raises(RuntimeError, match="in the middle of another"), Transaction(ledger):
            pass
    with pytest.raises(RuntimeError, match="a transaction is a block"):
        transaction.put(0, [NodeAllocation(0, (0,))])


def test_there_is_more_room_than_is_reserved() -> None:
    """Compiled code does not look whether its caller reserved enough, and once wrote over the memory of others."""
    books = Ledger(cluster_of(8), 1).reserve(200, 100)
    assert len(books.rows) >= 4 * 200
    assert len(books.journal) >= 4 * 100


def test_a_decision_has_room_for_a_gang_put_back_in_vain() -> None:
    """One gang has all GPUs, a row each, another one gets them, and the first looks for its own again."""
    nodes = 100
    ledger = Ledger(cluster_of(*[1] * nodes), 2)
    ledger.put(0, [NodeAllocation(node, (0,)) for node in range(nodes)])
    books = ledger.reserve_decision(2)

    def refusal_of(job: int) -> int:
        chain = b.NONE
        for node in range(nodes):
            row = steps.new_row(books)
            books.rows["node"][row], books.rows["mask"][row], books.rows["next"][row] = node, 1, chain
            chain = row
        return steps.put_chain(books, job, chain)

    steps.release_job(books, 0)
    assert (refusal_of(1), refusal_of(0)) == (0, b.UNFIT_GPU)
    assert books.totals[b.ROWS_USED] == 3 * nodes <= len(books.rows)
    assert books.totals[b.ENTRIES] <= len(books.journal)
