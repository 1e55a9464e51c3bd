"""The ledger's books: who holds what on which node, as plain arrays, and the kernels that write them.

Amounts are whole millionths of a unit (`MICRO`), so that what is taken and given back balances to the
last digit. GPU ids of a node are bits of one integer. An allocation is a chain of rows, one row a node
and role; a chain is put and released whole, and every such step is journalled, so that a scheduler may
try something and undo it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from muster.cluster.resources import RESOURCE_COUNT
from muster.cluster.structured import Structured, layout_of
from muster.compiling import njit

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[Any]
"""A structured array, whose fields its dtype names and NumPy's types do not know."""

MICRO = 1_000_000
WHOLE = 1000
"""Thousandths of a GPU in a whole one."""

GPU, CPU, MEMORY, STORAGE = 0, 1, 2, 3
"""The columns of the resources that come with Muster; further ones follow in the order of `RESOURCES`."""

WORKER, SERVER = 0, 1
ROLES = ("worker", "server")

NONE = -1

PACKED = 1 << 20
"""Groups from here on hold jobs that run on the same GPUs at the same time, instead of in turns."""

NODE = layout_of(
    ("capacity", np.int64, (RESOURCE_COUNT,)),
    ("free", np.int64, (RESOURCE_COUNT,)),
    ("releasing", np.int64, (RESOURCE_COUNT,)),
    ("unavailable", np.int64, (RESOURCE_COUNT,)),
    ("share", np.int64, (RESOURCE_COUNT,)),  # the GPU-proportional share of one GPU
    ("gpus", np.int64),
    ("free_gpus", np.int64),  # GPUs of which no job holds any part
    ("free_mask", np.int64),
    ("island", np.int64),  # GPUs an NVLink island
    ("rack", np.int64),
    ("gpu_type", np.int64),  # its number among the cluster's
    ("up", np.int64),
)
NodeArray: TypeAlias = Structured[
    Literal[
        "capacity",
        "free",
        "releasing",
        "unavailable",
        "share",
        "gpus",
        "free_gpus",
        "free_mask",
        "island",
        "rack",
        "gpu_type",
        "up",
    ]
]
DEVICE = layout_of(
    ("free_milli", np.int64),
    ("holders", np.int64),
    ("group", np.int64),
    ("busy", np.float64),  # GPUs that the jobs packed on it would keep busy (`speed.rates.note_busy`)
)
DeviceArray: TypeAlias = Structured[Literal["free_milli", "holders", "group", "busy"]]
ROW = layout_of(
    ("job", np.int64),
    ("node", np.int64),
    ("mask", np.int64),
    ("milli", np.int64),  # thousandths of each GPU in the mask
    ("amount", np.int64, (RESOURCE_COUNT,)),
    ("role", np.int64),
    (
        "group",
        np.int64,
    ),  # of jobs on the same GPUs, in turns or packed; NONE if the GPUs are the job's own
    ("next", np.int64),
    ("since", np.float64),
)
RowArray: TypeAlias = Structured[
    Literal["job", "node", "mask", "milli", "amount", "role", "group", "next", "since"]
]
ENTRY = layout_of(("kind", np.int64), ("job", np.int64), ("chain", np.int64))
JournalArray: TypeAlias = Structured[Literal["kind", "job", "chain"]]

PUT, RELEASE = 0, 1
FREE_ROW, ROWS_USED, ENTRIES, DELAYED = (RESOURCE_COUNT + place for place in range(4))
"""Places in `totals` after the resources: head of the list of free rows, rows ever used, length of
the journal, and whether what is released stays `releasing` until the world says otherwise."""

UNFIT_NODE, UNFIT_GPU, UNFIT_AMOUNT = -2, -3, -4


class Books(NamedTuple):
    """All arrays of a ledger, as the kernels take them."""

    nodes: NodeArray
    devices: DeviceArray
    rows: RowArray
    heads: Ints
    totals: Ints
    journal: JournalArray


@njit(cache=True)
def count_bits(mask: int) -> int:
    """Number of GPUs in a mask."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@njit(cache=True)
def _devices_fit(books: Books, row: int) -> bool:
    """Whether the node has the row's GPUs, and each of them has room for the row."""
    node = books.rows[row]["node"]
    mask = books.rows[row]["mask"]
    milli = books.rows[row]["milli"]
    group = books.rows[row]["group"]
    if mask >> books.nodes[node]["gpus"]:
        return False
    for gpu in range(books.nodes[node]["gpus"]):
        if mask >> gpu & 1:
            device = books.devices[node, gpu]
            if group >= 0:
                if device["holders"] > 0 and device["group"] != group:
                    return False
            elif device["group"] >= 0 or device["free_milli"] < milli:
                return False
    return True


@njit(cache=True)
def _take_devices(books: Books, row: int) -> int:
    """Mark the row's GPUs as held; thousandths newly taken, or UNFIT_GPU with nothing changed."""
    if not _devices_fit(books, row):
        return UNFIT_GPU
    node = books.rows[row]["node"]
    mask = books.rows[row]["mask"]
    milli = books.rows[row]["milli"]
    group = books.rows[row]["group"]
    taken = 0
    for gpu in range(books.nodes[node]["gpus"]):
        if mask >> gpu & 1:
            if books.devices[node, gpu]["holders"] == 0:
                books.nodes[node]["free_mask"] &= ~(1 << gpu)
                books.nodes[node]["free_gpus"] -= 1
            if group >= 0:
                taken += books.devices[node, gpu]["free_milli"]
                books.devices[node, gpu]["free_milli"] = 0
                books.devices[node, gpu]["group"] = group
            else:
                taken += milli
                books.devices[node, gpu]["free_milli"] -= milli
            books.devices[node, gpu]["holders"] += 1
    return taken


@njit(cache=True)
def _give_devices(books: Books, row: int) -> int:
    """Give the row's GPUs back; thousandths that became free."""
    node = books.rows[row]["node"]
    mask = books.rows[row]["mask"]
    given = 0
    for gpu in range(books.nodes[node]["gpus"]):
        if mask >> gpu & 1:
            books.devices[node, gpu]["holders"] -= 1
            if books.rows[row]["group"] < 0:
                given += books.rows[row]["milli"]
                books.devices[node, gpu]["free_milli"] += books.rows[row]["milli"]
            elif books.devices[node, gpu]["holders"] == 0:
                given += 1000
                books.devices[node, gpu]["free_milli"] = 1000
                books.devices[node, gpu]["group"] = -1
            if books.devices[node, gpu]["holders"] == 0 and books.nodes[node]["up"]:
                books.nodes[node]["free_mask"] |= 1 << gpu
                books.nodes[node]["free_gpus"] += 1
    return given


@njit(cache=True)
def charge(books: Books, row: int) -> int:
    """Take what a row asks from its node; 0, or why not (UNFIT_...) with nothing changed."""
    node = books.rows[row]["node"]
    if node < 0 or node >= len(books.nodes) or not books.nodes[node]["up"]:
        return UNFIT_NODE
    for resource in range(1, RESOURCE_COUNT):
        if books.rows[row]["amount"][resource] > books.nodes[node]["free"][resource]:
            return UNFIT_AMOUNT
    taken = _take_devices(books, row)
    if taken < 0:
        return taken
    books.nodes[node]["free"][0] -= taken * 1000
    books.totals[0] -= taken * 1000
    for resource in range(1, RESOURCE_COUNT):
        books.nodes[node]["free"][resource] -= books.rows[row]["amount"][resource]
        books.totals[resource] -= books.rows[row]["amount"][resource]
    return 0


@njit(cache=True)
def discharge(books: Books, row: int) -> None:
    """Give back what a row holds: to the free, or to the unavailable where the node is down."""
    node = books.rows[row]["node"]
    given = _give_devices(books, row)
    for resource in range(RESOURCE_COUNT):
        amount = given * 1000 if resource == 0 else books.rows[row]["amount"][resource]
        if books.nodes[node]["up"]:
            books.nodes[node]["free"][resource] += amount
            books.totals[resource] += amount
        else:
            books.nodes[node]["unavailable"][resource] += amount


@njit(cache=True)
def new_row(books: Books) -> int:
    """A blank row; the caller has reserved room."""
    row: int = books.totals[FREE_ROW]
    if row >= 0:
        books.totals[FREE_ROW] = books.rows[row]["next"]
    else:
        row = books.totals[ROWS_USED]
        books.totals[ROWS_USED] += 1
    books.rows[row]["next"] = -1
    books.rows[row]["mask"] = 0
    books.rows[row]["milli"] = 1000
    books.rows[row]["role"] = 0
    books.rows[row]["group"] = -1
    for resource in range(RESOURCE_COUNT):
        books.rows[row]["amount"][resource] = 0
    return row


@njit(cache=True)
def copy_chain(books: Books, chain: int) -> int:
    """The same rows once more, in the same order, charged nowhere; the caller has reserved room."""
    first = -1
    last = -1
    while chain >= 0:
        row = new_row(books)
        books.rows[row] = books.rows[chain]
        books.rows[row]["next"] = -1
        if last < 0:
            first = row
        else:
            books.rows[last]["next"] = row
        last = row
        chain = books.rows[chain]["next"]
    return first


@njit(cache=True)
def drop_rows(books: Books, chain: int) -> None:
    """Return a chain's rows, which are charged nowhere any more, to the list of free rows."""
    while chain >= 0:
        following = books.rows[chain]["next"]
        books.rows[chain]["next"] = books.totals[FREE_ROW]
        books.totals[FREE_ROW] = chain
        chain = following


@njit(cache=True)
def write_entry(books: Books, kind: int, job: int, chain: int) -> None:
    """Add a line to the journal."""
    entry = books.totals[ENTRIES]
    books.journal[entry]["kind"] = kind
    books.journal[entry]["job"] = job
    books.journal[entry]["chain"] = chain
    books.totals[ENTRIES] += 1


@njit(cache=True)
def put_chain(books: Books, job: int, chain: int) -> int:
    """Give a job, which holds nothing, the rows of a chain; 0, or why not, and then the rows are dropped."""
    row = chain
    while row >= 0:
        books.rows[row]["job"] = job
        refusal = charge(books, row)
        if refusal < 0:
            taken = chain
            while taken != row:
                discharge(books, taken)
                taken = books.rows[taken]["next"]
            drop_rows(books, chain)
            return refusal
        row = books.rows[row]["next"]
    books.heads[job] = chain
    write_entry(books, PUT, job, chain)
    return 0


@njit(cache=True)
def release_job(books: Books, job: int) -> None:
    """Take all a job holds away from it; its rows stay as they are until the journal is settled."""
    chain = books.heads[job]
    if chain < 0:
        return
    row = chain
    while row >= 0:
        if books.totals[DELAYED]:
            node = books.rows[row]["node"]
            for resource in range(RESOURCE_COUNT):
                books.nodes[node]["releasing"][resource] += books.rows[row]["amount"][resource]
        else:
            discharge(books, row)
        row = books.rows[row]["next"]
    books.heads[job] = -1
    write_entry(books, RELEASE, job, chain)


@njit(cache=True)
def undo_to(books: Books, mark: int) -> None:
    """Take steps back until the journal is as long as it was at the mark."""
    while books.totals[ENTRIES] > mark:
        books.totals[ENTRIES] -= 1
        entry = books.journal[books.totals[ENTRIES]]
        row = entry["chain"]
        if entry["kind"] == PUT:
            while row >= 0:
                discharge(books, row)
                row = books.rows[row]["next"]
            books.heads[entry["job"]] = -1
            drop_rows(books, entry["chain"])
        else:
            while row >= 0:
                if books.totals[DELAYED]:
                    node = books.rows[row]["node"]
                    for resource in range(RESOURCE_COUNT):
                        books.nodes[node]["releasing"][resource] -= books.rows[row]["amount"][resource]
                else:
                    charge(books, row)
                row = books.rows[row]["next"]
            books.heads[entry["job"]] = entry["chain"]


@njit(cache=True)
def take_changes(books: Books, before: Ints, jobs: Ints, first: Ints, rows: RowArray) -> int:
    """Write down what each job of the journal holds, where that differs from what it held before, and undo all.

    Returns how many jobs differ. The rows of the job at `i` are `rows[first[i]:first[i + 1]]`. `before` is scratch, a
    place a job, all -2.
    """
    first[0] = 0
    entries = books.totals[ENTRIES]
    for at in range(entries):
        entry = books.journal[at]
        if before[entry["job"]] == -2:
            before[entry["job"]] = -1 if entry["kind"] == PUT else entry["chain"]
    count = 0
    used = 0
    for at in range(entries):
        job: int = books.journal[at]["job"]
        old = before[job]
        if old == -2:
            continue
        before[job] = -2
        row = books.heads[job]
        if same_chain(books, old, row):
            continue
        jobs[count] = job
        while row >= 0:
            rows[used] = books.rows[row]
            rows[used]["next"] = -1
            rows[used]["since"] = 0.0
            used += 1
            row = books.rows[row]["next"]
        count += 1
        first[count] = used
    undo_to(books, 0)
    return count


@njit(cache=True)
def carry_out(books: Books, jobs: Ints, first: Ints, rows: RowArray) -> int:
    """Give each job these rows instead of what it holds, journalled; 0, or why not, with the steps so far left."""
    for job in jobs:
        release_job(books, job)
    for at in range(len(jobs)):
        chain = -1
        for place in range(first[at + 1] - 1, first[at] - 1, -1):
            row = new_row(books)
            books.rows[row] = rows[place]
            books.rows[row]["next"] = chain
            chain = row
        if chain >= 0:
            refusal = put_chain(books, jobs[at], chain)
            if refusal < 0:
                return refusal
    return 0


@njit(cache=True)
def end_release(books: Books, chain: int) -> None:
    """What a chain held and was still releasing becomes free."""
    row = chain
    while row >= 0:
        node = books.rows[row]["node"]
        for resource in range(RESOURCE_COUNT):
            books.nodes[node]["releasing"][resource] -= books.rows[row]["amount"][resource]
        discharge(books, row)
        row = books.rows[row]["next"]
    drop_rows(books, chain)


@njit(cache=True)
def same_chain(books: Books, one: int, other: int) -> bool:
    """Whether two chains hold the same things, row by row."""
    while one >= 0 and other >= 0:
        a = books.rows[one]
        b = books.rows[other]
        if (
            a["node"] != b["node"]
            or a["mask"] != b["mask"]
            or a["milli"] != b["milli"]
            or a["role"] != b["role"]
            or a["group"] != b["group"]
        ):
            return False
        for resource in range(RESOURCE_COUNT):
            if a["amount"][resource] != b["amount"][resource]:
                return False
        one = a["next"]
        other = b["next"]
    return one < 0 and other < 0


@njit(cache=True)
def take_down(books: Books, node: int) -> None:
    """Makes what is free on a node unavailable; no job holds anything on it."""
    for resource in range(RESOURCE_COUNT):
        amount = books.nodes[node]["free"][resource]
        books.nodes[node]["unavailable"][resource] += amount
        books.totals[resource] -= amount
        books.nodes[node]["free"][resource] = 0
    books.nodes[node]["up"] = 0
    books.nodes[node]["free_mask"] = 0
    books.nodes[node]["free_gpus"] = 0


@njit(cache=True)
def bring_up(books: Books, node: int) -> None:
    """What was unavailable on a node is free again."""
    books.nodes[node]["up"] = 1
    for resource in range(RESOURCE_COUNT):
        amount = books.nodes[node]["unavailable"][resource]
        books.nodes[node]["free"][resource] += amount
        books.totals[resource] += amount
        books.nodes[node]["unavailable"][resource] = 0
    for gpu in range(books.nodes[node]["gpus"]):
        if books.devices[node, gpu]["holders"] == 0:
            books.nodes[node]["free_mask"] |= 1 << gpu
            books.nodes[node]["free_gpus"] += 1
