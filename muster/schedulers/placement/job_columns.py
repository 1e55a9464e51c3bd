"""What compiled code is given to find places: the jobs, what a GPU of each needs, and the reasons that it writes.

Needs are amounts per GPU in millionths; `PROPORTIONAL` stands for the share of the node that is tried, and
`PROPORTIONAL - amount` for the share, but at least the amount.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints, NodeArray
from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.contract import Proposal, Snapshot
from muster.workload.jobs import AskedArray

PROPORTIONAL = -1

PACK, FIRST_FIT, CONSOLIDATE, SPREAD, YARN = 0, 1, 2, 3, 4
"""Rules of placement."""

NOT_FREE = -1
"""A mask in place of GPUs that are not free: the ledger refuses it on every node, as it has more GPUs than any."""


class JobColumns(NamedTuple):
    """The jobs of a snapshot as compiled code takes them."""

    spec: AskedArray
    """The specs of all jobs, by number."""
    numbers: Ints
    """By position: the job's number."""
    node_allowed: Bools
    """Constraints x nodes."""


class ReasonColumns(NamedTuple):
    """By position: why a job holds nothing, or PLACED, with the two numbers of the reason."""

    codes: Ints
    a: Floats
    b: Floats


def job_columns(snapshot: Snapshot) -> JobColumns:
    """The jobs of a snapshot as compiled code takes them."""
    return JobColumns(snapshot.table.asked, snapshot.jobs.index, snapshot.table.node_allowed)


def reason_columns(proposal: Proposal) -> ReasonColumns:
    """The reasons of a proposal, to be written by compiled code."""
    return ReasonColumns(proposal.reasons, proposal.reason_a, proposal.reason_b)


def proportional_needs(nodes: NodeArray, requested: Ints) -> Ints:
    """The node's share, but at least the request: jobs x 1 x resources, or one line if no request exceeds a share."""
    line = np.full((1, 1, RESOURCE_COUNT), PROPORTIONAL)
    if not requested.any() or (requested.max(axis=0) <= nodes["share"][nodes["gpus"] > 0].min(axis=0)).all():
        return line
    needs: Ints = line - requested[:, None]
    return needs
