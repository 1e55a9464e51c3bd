"""What is free and which job holds what: the one place where that is kept.

For every node and resource: held + releasing + unavailable + free = capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from operator import index
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

import numpy as np

from muster.cluster import ledger_arrays as b
from muster.cluster import ledger_steps as steps
from muster.cluster.description import MAX_GPUS_PER_NODE, Cluster
from muster.cluster.ledger_arrays import (
    CPU,
    GPU,
    MEMORY,
    MICRO,
    NONE,
    STORAGE,
    WHOLE,
    Books,
    Floats,
    Ints,
    RowArray,
)
from muster.cluster.resources import BUILT_IN_COUNT, FURTHER, RESOURCE_COUNT
from muster.cluster.structured import ColumnT, Structured, zero_records

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # Python 3.13 has `default` in `typing`.

    NodeRef = TypeVar("NodeRef", int, str, default=int)
    OtherRef = TypeVar("OtherRef", int, str)
else:
    from typing import TypeVar

    NodeRef, OtherRef = TypeVar("NodeRef"), TypeVar("OtherRef")

_REFUSALS = {
    b.UNFIT_NODE: "the node is down or does not exist",
    b.UNFIT_GPU: "a GPU is taken or does not exist",
    b.UNFIT_AMOUNT: "the node has less of a resource free",
    b.UNFIT_EVEN: "the engine gives a job as many GPUs on each of its nodes",
}
_SPARE = 4_096
"""Records beside twice what is needed: where a decision writes more than was reserved for it, it writes here."""
_AMOUNTS = ("cpus", "memory_gb", "storage_gb_per_s")


class DoesNotFit(Exception):
    """An allocation that was put where it does not fit."""


@dataclass(frozen=True)
class NodeAllocation(Generic[NodeRef]):
    """What a job holds on one node, in one role.

    The ledger and schedulers number nodes (`NodeAllocation`); engines, store and API name them (`NodeAllocation[str]`).
    """

    node: NodeRef
    gpu_ids: tuple[int, ...]
    cpus: float = 0.0
    memory_gb: float = 0.0
    storage_gb_per_s: float = 0.0
    milli: int = WHOLE
    """Thousandths of each GPU."""
    role: int = b.WORKER
    group: int = NONE
    """Jobs of one time-slice group take turns on the same GPUs."""
    further: tuple[float, ...] = (0.0,) * len(FURTHER)
    """Of the resources that do not come with Muster, in the order of `FURTHER`."""

    @property
    def gpus(self) -> float:
        """GPUs held here; a share of one GPU counts as that share."""
        return len(self.gpu_ids) * self.milli / WHOLE

    @property
    def amounts(self) -> tuple[float, ...]:
        """What is held here, by resource."""
        return (self.gpus, self.cpus, self.memory_gb, self.storage_gb_per_s, *self.further)

    @property
    def further_by_name(self) -> dict[str, float]:
        """What is held here of the resources that do not come with Muster."""
        return {one.name: amount for one, amount in zip(FURTHER, self.further, strict=True)}

    def on(self, node: OtherRef) -> NodeAllocation[OtherRef]:
        """The same amounts on another node, or on the same one by its name or number."""
        return NodeAllocation(
            node,
            self.gpu_ids,
            self.cpus,
            self.memory_gb,
            self.storage_gb_per_s,
            self.milli,
            self.role,
            self.group,
            self.further,
        )


class Changes(NamedTuple):
    """What some jobs hold instead of what they held before."""

    jobs: Ints
    """Their numbers, in the order in which they were first touched."""
    first: Ints
    """The rows of the job at `i` are `rows[first[i]:first[i + 1]]`: none if it holds nothing afterwards."""
    rows: RowArray


NO_CHANGES = Changes(np.zeros(0, np.int64), np.zeros(1, np.int64), zero_records(0, b.ROW))


class Ledger:
    """The books of one cluster. Read it anywhere; a scheduler tries changes in a `Transaction`.

    `put` and `carry_out` journal their steps; the caller settles or undoes the journal.
    """

    def __init__(self, cluster: Cluster, jobs: int, *, even_gangs: bool = False) -> None:
        """`even_gangs`: a job has the same number of GPUs on each of its nodes, and of all else the least of them."""
        nodes: b.NodeArray = zero_records(len(cluster.nodes), b.NODE)
        gpu_types = cluster.gpu_types
        for at, node in enumerate(cluster.nodes):
            nodes[at]["capacity"] = [round(amount * MICRO) for amount in node.amounts]
            nodes[at]["gpus"] = nodes[at]["free_gpus"] = node.gpus
            nodes[at]["free_mask"] = (1 << node.gpus) - 1
            nodes[at]["island"] = node.gpus_per_island
            nodes[at]["rack"] = node.rack
            nodes[at]["gpu_type"] = gpu_types.index(node.gpu_type) if node.gpus else 0
            nodes[at]["up"] = 1
        nodes["free"] = nodes["capacity"]
        nodes["share"] = nodes["capacity"] // np.maximum(nodes["gpus"], 1)[:, None]
        nodes["share"][:, BUILT_IN_COUNT:] = 0
        most_gpus = max((node.gpus for node in cluster.nodes), default=0)
        devices: b.DeviceArray = zero_records((len(nodes), most_gpus), b.DEVICE)
        devices["free_milli"] = WHOLE
        devices["group"] = NONE
        totals = np.zeros(b.EVEN_GANGS + 1, np.int64)
        totals[:RESOURCE_COUNT] = nodes["free"].sum(axis=0)
        totals[b.FREE_ROW] = NONE
        totals[b.EVEN_GANGS] = even_gangs
        self.cluster = cluster
        self.books = Books(
            nodes, devices, zero_records(64, b.ROW), np.full(jobs, NONE), totals, zero_records(64, b.ENTRY)
        )
        self._before = np.full(jobs, -2)
        """Scratch of `take_changes`, which leaves it as it was."""
        self._held_back: dict[int, int] = {}
        """Rows of no job, by node."""
        self._read_only = False
        """Whether nothing may be written but in a transaction."""

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Let nothing but a transaction change the ledger during the block."""
        arrays = self.books.nodes, self.books.devices, self.books.heads
        self._lock(arrays, True)
        try:
            yield
        finally:
            self._lock(arrays, False)

    def _lock(self, arrays: tuple[Any, ...], locked: bool) -> None:
        self._read_only = locked
        for array in arrays:
            array.flags.writeable = not locked

    def _check_writable(self) -> None:
        """RuntimeError while only a transaction may change the ledger, and none is open."""
        if self._read_only:
            raise RuntimeError(
                "the ledger is read-only outside a block: with snapshot.transaction() as transaction: ..."
            )

    def reserve(self, rows: int, entries: int) -> Books:
        """The books, with room for so many more rows and journal entries."""
        books = self.books
        rows_needed = int(books.totals[b.ROWS_USED]) + rows
        entries_needed = int(books.totals[b.ENTRIES]) + entries
        if rows_needed > len(books.rows) or entries_needed > len(books.journal):
            books = self.books = books._replace(
                rows=_grown(books.rows, rows_needed), journal=_grown(books.journal, entries_needed)
            )
        return books

    def reserve_decision(self, jobs: int) -> Books:
        """The books, with room for a decision about so many jobs."""
        return self.reserve(*steps.room_of_decision(self.cluster.total_gpus, jobs))

    def admit(self, jobs: int) -> None:
        """Make room for jobs up to this number."""
        heads = np.full(max(jobs - len(self.books.heads), 0), NONE)
        self.books = self.books._replace(heads=np.concatenate([self.books.heads, heads]))
        self._before = np.full(len(self.books.heads), -2)

    def put(self, job: int, shares: Iterable[NodeAllocation]) -> None:
        """Give these shares to a job, instead of what it holds; `DoesNotFit` and no change if they do not.

        ValueError for a job that there is not, and for a share that no node could hold.
        """
        self._check_writable()
        shares = list(shares)
        self.check_jobs(job, job)
        for share in shares:
            _check_share(share)
        books = self.reserve(len(shares), 2)
        mark = int(books.totals[b.ENTRIES])
        steps.release_job(books, job)
        chain = NONE
        for share in reversed(shares):
            row = int(steps.new_row(books))
            _write_row(books, row, share)
            books.rows[row]["next"] = chain
            chain = row
        refusal = int(steps.put_chain(books, job, chain))
        if refusal < 0:
            steps.undo_to(books, mark)
            raise DoesNotFit(f"job {job} on {shares}: {_REFUSALS[refusal]}")

    def check_jobs(self, first: int, last: int) -> None:
        """ValueError unless the jobs of both numbers exist; compiled code does not look."""
        for job in (first, last):
            if not 0 <= index(job) < len(self.books.heads):
                raise ValueError(f"there is no job {job}; allowed: 0 to {len(self.books.heads) - 1}")

    def hold_back(self, held: NodeAllocation, *, any_gpus: bool) -> None:
        """Keep what others hold on a node from all jobs, instead of what was kept there before; as far as it is free.

        `any_gpus`: as many GPUs as it names, whichever are free. Between two decisions only; not journalled.
        """
        if not self.books.nodes.flags.writeable:
            raise RuntimeError("the ledger is read-only during a decision")
        books = self.reserve(1, 0)
        if (before := self._held_back.pop(held.node, None)) is not None:
            steps.discharge_row(books, before)
        free = self.free_ids(held.node)
        ids = free[::-1][: len(held.gpu_ids)] if any_gpus else tuple(set(free) & set(held.gpu_ids))
        amounts = books.nodes[held.node]["free"] / MICRO
        kept = NodeAllocation(
            held.node,
            tuple(sorted(ids)),
            min(held.cpus, float(amounts[CPU])),
            min(held.memory_gb, float(amounts[MEMORY])),
            min(held.storage_gb_per_s, float(amounts[STORAGE])),
        )
        row = int(steps.new_row(books))
        _write_row(books, row, kept)
        if steps.charge_row(books, row) < 0:  # The node is down.
            steps.drop_rows(books, row)
        else:
            self._held_back[held.node] = row

    def held_back(self, node: int) -> NodeAllocation:
        """What is kept from all jobs on a node."""
        row = self._held_back.get(node)
        return NodeAllocation(node, ()) if row is None else self.shares(row)[0]

    @property
    def some_held_back(self) -> bool:
        """Whether anything is kept from all jobs."""
        return bool(self._held_back)

    @property
    def all_held_back(self) -> tuple[NodeAllocation, ...]:
        """What is kept from all jobs, by node."""
        return tuple(self.shares(row)[0] for row in self._held_back.values())

    def carry_out(self, changes: Changes) -> None:
        """Give the jobs of the changes what they hold after them; `DoesNotFit` and no change if that does not fit."""
        self._check_writable()
        if len(changes.jobs):
            self.check_jobs(changes.jobs.min(), changes.jobs.max())
        books = self.reserve(len(changes.rows), 2 * len(changes.jobs))
        mark = int(books.totals[b.ENTRIES])
        refusal = int(steps.carry_out(books, *changes))
        if refusal < 0:
            steps.undo_to(books, mark)
            raise DoesNotFit(f"jobs {changes.jobs.tolist()}: {_REFUSALS[refusal]}")

    def take_changes(self, rows_at_most: int) -> Changes:
        """What the jobs of the journal hold, where that differs from what they held before it; all of it is undone."""
        entries = int(self.books.totals[b.ENTRIES])
        if not entries:
            return NO_CHANGES
        jobs, first = np.empty(entries, np.int64), np.empty(entries + 1, np.int64)
        rows: b.RowArray = zero_records(rows_at_most, b.ROW)
        count = steps.take_changes(self.books, self._before, jobs, first, rows)
        return Changes(jobs[:count], first[: count + 1], rows[: first[count]])

    def holds(self, job: int) -> bool:
        """Whether a job holds anything."""
        return bool(self.books.heads[job] >= 0)

    def holding(self, job: int) -> list[NodeAllocation]:
        """What a job holds, a share a node and role."""
        return self.shares(int(self.books.heads[job]))

    def shares(self, chain: int) -> list[NodeAllocation]:
        """The shares that a chain of rows stands for."""
        rows = []
        while chain >= 0:
            rows.append(chain)
            chain = int(self.books.rows[chain]["next"])
        return list(node_allocations(self.books.rows[rows]))

    def free(self) -> Floats:
        """What is free in all, by resource."""
        totals: Floats = self.books.totals[:RESOURCE_COUNT] / MICRO
        return totals

    def releasing_gpus(self) -> int:
        """Millionths of GPUs whose jobs are gone and that no job can have yet."""
        if not self.books.totals[b.DELAYED]:
            return 0
        return int(self.books.nodes["releasing"][:, GPU].sum())

    def free_ids(self, node: int) -> tuple[int, ...]:
        """GPUs of a node of which no job holds any part."""
        return gpu_ids(int(self.books.nodes[node]["free_mask"]))

    def balance(self) -> Ints:
        """Held + releasing + unavailable + free - capacity, by node and resource: all zero, always."""
        books = self.books
        held = np.zeros((len(books.nodes), RESOURCE_COUNT), np.int64)
        for head in books.heads[books.heads >= 0]:
            row = int(head)
            while row >= 0:
                held[books.rows[row]["node"], 1:] += books.rows[row]["amount"][1:]
                row = int(books.rows[row]["next"])
        for node, row in self._held_back.items():
            held[node, 1:] += books.rows[row]["amount"][1:]
        real = np.arange(books.devices.shape[1])[None, :] < books.nodes["gpus"][:, None]
        taken = np.where(real, WHOLE - books.devices["free_milli"], 0).sum(axis=1) * (MICRO // WHOLE)
        held[:, GPU] = taken - books.nodes["releasing"][:, GPU]
        balance: Ints = (
            held
            + books.nodes["releasing"]
            + books.nodes["unavailable"]
            + books.nodes["free"]
            - books.nodes["capacity"]
        )
        return balance


class Transaction:
    """Tries changes on a ledger and leaves it as it was: `with Transaction(ledger) as transaction:`.

    The steps are written into the ledger itself and journalled, which costs what changes and not what exists. At the
    end of the block all of them are undone, whether it ends well or not; `changes` says what came of them.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open = self._read_only = False
        self._free_row = self._rows_used = 0

    def __enter__(self) -> Self:
        """Begin; nothing else may change the ledger until the end."""
        totals = self._ledger.books.totals
        if totals[b.ENTRIES]:
            raise RuntimeError("a transaction begins in the middle of another one")
        self._free_row, self._rows_used = int(totals[b.FREE_ROW]), int(totals[b.ROWS_USED])
        totals[b.FREE_ROW] = NONE  # New rows come after all others, so that those stay as they are.
        self._open = True
        self._read_only, self._ledger._read_only = self._ledger._read_only, False
        return self

    def __exit__(self, *_: object) -> None:
        """Undo every step."""
        totals = self._ledger.books.totals
        if totals[b.ENTRIES]:
            self.undo()
        totals[b.FREE_ROW], totals[b.ROWS_USED] = self._free_row, self._rows_used
        self._ledger._read_only = self._read_only
        self._open = False

    @property
    def ledger(self) -> Ledger:
        """The ledger with the steps so far."""
        if not self._open:
            raise RuntimeError("a transaction is a block: with snapshot.transaction() as transaction: ...")
        return self._ledger

    def mark(self) -> int:
        """A point to come back to."""
        return int(self.ledger.books.totals[b.ENTRIES])

    def undo(self, mark: int = 0) -> None:
        """Take every step since the mark back."""
        steps.undo_to(self.ledger.books, mark)

    def release(self, job: int) -> None:
        """Take all a job holds away from it; ValueError for a job that there is not."""
        self.ledger.check_jobs(job, job)
        steps.release_job(self.ledger.reserve(0, 1), job)

    def put(self, job: int, shares: Iterable[NodeAllocation]) -> None:
        """Give these shares to a job, instead of what it holds; `DoesNotFit` and no change if they do not."""
        self.ledger.put(job, shares)

    def try_out(self, changes: Changes) -> None:
        """Take these changes as steps; `DoesNotFit` and no change if they do not."""
        self.ledger.carry_out(changes)

    def take_changes(self) -> Changes:
        """What each job holds after the steps so far, where that differs from the beginning; the steps are undone."""
        return self.ledger.take_changes(int(self.ledger.books.totals[b.ROWS_USED]) - self._rows_used)


def _check_share(share: NodeAllocation) -> None:
    """ValueError for what no node could hold: the same GPU twice, or less than nothing of a resource."""
    ids, most = share.gpu_ids, MAX_GPUS_PER_NODE - 1
    for name, right, allowed in (
        ("node", isinstance(share.node, int | np.integer), "the number of a node"),
        (
            "gpu_ids",
            len(set(ids)) == len(ids) and all(0 <= index(gpu) <= most for gpu in ids),
            f"numbers of GPUs from 0 to {most}, each once",
        ),
        ("milli", 0 < share.milli <= WHOLE, f"1 to {WHOLE}"),
        ("role", share.role in (b.WORKER, b.SERVER), f"{b.WORKER} (worker) or {b.SERVER} (server)"),
        ("further", len(share.further) == len(FURTHER), f"{len(FURTHER)} amounts"),
        *((one, 0 <= getattr(share, one) < inf, "a number from 0 on") for one in _AMOUNTS),
        ("further", all(0 <= amount < inf for amount in share.further), "numbers from 0 on"),
    ):
        if not right:
            raise ValueError(f"{name}: found {getattr(share, name)}; allowed: {allowed}")


def _write_row(books: Books, row: int, share: NodeAllocation) -> None:
    """Write what an allocation holds into a row, at the end of its chain."""
    record = books.rows[row]
    record["node"] = share.node
    record["mask"] = sum(1 << gpu for gpu in share.gpu_ids)
    record["milli"] = share.milli
    record["amount"] = [round(amount * MICRO) for amount in share.amounts]
    record["role"] = share.role
    record["group"] = share.group
    record["next"] = NONE


def node_allocations(rows: RowArray) -> tuple[NodeAllocation, ...]:
    """The shares that rows of a ledger stand for."""
    return tuple(
        NodeAllocation(
            node=int(row["node"]),
            gpu_ids=gpu_ids(int(row["mask"])),
            cpus=float(row["amount"][CPU]) / MICRO,
            memory_gb=float(row["amount"][MEMORY]) / MICRO,
            storage_gb_per_s=float(row["amount"][STORAGE]) / MICRO,
            further=tuple(float(amount) / MICRO for amount in row["amount"][BUILT_IN_COUNT:]),
            milli=int(row["milli"]),
            role=int(row["role"]),
            group=int(row["group"]),
        )
        for row in rows
    )


def gpu_ids(mask: int) -> tuple[int, ...]:
    """The GPU ids of a mask, ascending."""
    return tuple(gpu for gpu in range(mask.bit_length()) if mask >> gpu & 1)


def _grown(array: Structured[ColumnT], needed: int) -> Structured[ColumnT]:
    if needed <= len(array):
        return array
    grown: Structured[ColumnT] = zero_records(2 * needed + _SPARE, array.dtype)
    grown[: len(array)] = array
    return grown
