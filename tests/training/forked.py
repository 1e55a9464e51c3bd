"""Ranks of one start as forks of this process: real processes on gloo, without the time to import PyTorch."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch

_PATIENCE_SECONDS = 60
_CONTEXT = multiprocessing.get_context("fork")


def run_ranks(
    count: int,
    job: Callable[..., Any],
    *arguments: Any,
    env: Mapping[str, str] | None = None,
    has_group: bool = True,
) -> list[tuple[int | None, Any]]:
    """Exit status of each rank, and what the job returned; None if it ended before.

    `has_group`: the job finds its process group made, and it is ended after it.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(count):
        receiver, sender = _CONTEXT.Pipe(duplex=False)
        where = {"RANK": str(rank), "WORLD_SIZE": str(count)}
        where |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **(env or {})}
        process = _CONTEXT.Process(target=_rank, args=(where, sender, has_group, job, arguments))
        process.start()
        sender.close()
        ranks.append((process, receiver))
    results = []
    for process, receiver in ranks:
        result = None
        if receiver.poll(_PATIENCE_SECONDS):
            with suppress(EOFError):
                result = receiver.recv()
        process.join(_PATIENCE_SECONDS)
        results.append((process.exitcode, result))
        process.close()
    return results


def _rank(
    where: Mapping[str, str],
    sender: Connection,
    has_group: bool,
    job: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:
        del os.environ[name]
    os.environ.update(where)
    torch.set_num_threads(1)
    if not has_group:
        sender.send(job(*arguments))
        return
    torch.distributed.init_process_group("gloo")
    sender.send(job(*arguments))
    torch.distributed.barrier()  # the first rank has the store that the others still ask
    torch.distributed.destroy_process_group()
