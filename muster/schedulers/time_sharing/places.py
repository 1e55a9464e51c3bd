"""From the ledger to places and back, compiled: which whole GPUs each job holds, and back into a transaction."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import (
    PACKED,
    Books,
    Bools,
    Ints,
    count_bits,
    drop_rows,
    new_row,
    put_chain,
    release_job,
    same_chain,
)
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit


@njit(cache=True)
def read_places(books: Books, jobs: Ints, first: Ints, nodes: Ints, masks: Ints, holders: Ints) -> None:
    """Rows of whole GPUs, those of position i from `first[i]` on, and how many of the jobs hold each GPU."""
    rows = 0
    for at in range(len(jobs)):
        first[at] = rows
        row = books.heads[jobs[at]]
        while row >= 0:
            record = books.rows[row]
            if record["milli"] == 1000 and record["mask"]:
                nodes[rows], masks[rows] = record["node"], record["mask"]
                rows += 1
                for gpu in range(books.nodes[record["node"]]["gpus"]):
                    if record["mask"] >> gpu & 1:
                        holders[record["node"], gpu] += 1
            row = record["next"]
    first[len(jobs)] = rows


@njit(cache=True)
def most_holders(holders: Ints, node: int, mask: int) -> int:
    """On the most crowded of these GPUs."""
    most = 0
    for gpu in range(holders.shape[1]):
        if mask >> gpu & 1:
            most = max(most, holders[node, gpu])
    return most


@njit(cache=True)
def write_places(
    books: Books, jobs: Ints, first: Ints, nodes: Ints, masks: Ints, holders: Ints, packed: Bools
) -> int:
    """Draft that these jobs hold these GPUs and no others; the first position that cannot be put, or -1.

    Each gets its GPUs' share of CPU, memory and storage, which those who hold a GPU together divide.
    """
    chains = np.full(len(jobs), -1)
    for at in range(len(jobs)):
        for place in range(first[at + 1] - 1, first[at] - 1, -1):
            node, mask = nodes[place], masks[place]
            most = most_holders(holders, node, mask)
            gpus = count_bits(mask)
            row = new_row(books)
            books.rows[row]["node"], books.rows[row]["mask"] = node, mask
            books.rows[row]["amount"][0] = gpus * 1_000_000
            for resource in range(1, RESOURCE_COUNT):
                books.rows[row]["amount"][resource] = gpus * books.nodes[node]["share"][resource] // most
            if most > 1:
                books.rows[row]["group"] = node + PACKED if packed[at] else node
            books.rows[row]["next"] = chains[at]
            chains[at] = row
        if same_chain(books, books.heads[jobs[at]], chains[at]):
            drop_rows(books, chains[at])
            chains[at] = -2
        else:
            release_job(books, jobs[at])
    for at in range(len(jobs)):
        if chains[at] >= 0 and put_chain(books, jobs[at], chains[at]) != 0:
            return at
    return -1
