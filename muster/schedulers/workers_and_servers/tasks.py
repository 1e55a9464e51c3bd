"""What is placed: by job how many workers and servers, and the network cards of the nodes (`task_placement`)."""

from __future__ import annotations

from typing import NamedTuple

from muster.cluster.ledger_arrays import Bools, Ints


class Tasks(NamedTuple):
    """By position: how many workers and servers each job should have, and what one of them needs."""

    workers: Ints
    servers: Ints
    least_workers: Ints
    needs: Ints
    """(jobs, roles, 4) millionths of GPU, CPU, memory and network bandwidth of one worker or server."""
    in_ring: Bools
    settled: Bools
    """Jobs that keep what they hold."""


class NetworkCards(NamedTuple):
    """By node."""

    bandwidth: Ints
    """Of its network card, in millionths of a GB/s."""
    rack: Ints
