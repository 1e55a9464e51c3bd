"""Pieces as tasks of a Ray cluster: their results come back and are written here, so the nodes share no folder.

Trace and cluster files that pieces read are opened on the nodes, under the same path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.extras import RAY, require
from muster.problems import InputError, Problem, Unable
from muster.service.engines.ray.connection import RayError, knock
from muster.sweep.pieces import Piece, PieceBatch, check_program, keep, program_digest

_FLAG = "--address"
_WAIT_SECONDS = 5.0
"""Between two looks whether Ray has a node left."""
_TRIES = 3
"""Of a task whose node dies."""


class RayTasks:
    """A connection of this process to a Ray cluster, for batches of pieces."""

    def __init__(self, address: str | None) -> None:
        """Connect. InputError if no head answers at the address."""
        require(RAY)
        import ray

        if not address:
            raise InputError(Problem(_FLAG, "allowed: host and port of the head of a Ray cluster"))
        try:
            knock(address)
            ray.init(
                address=address, log_to_driver=False, configure_logging=False, logging_level=logging.ERROR
            )
        except (RayError, ValueError, ConnectionError, RuntimeError) as error:
            raise InputError(Problem(_FLAG, str(error), found=address)) from error
        self._ray = ray

    @property
    def cpus(self) -> int:
        """CPUs of all nodes, at least 1."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def run(
        self, batches: Mapping[str, PieceBatch], at_once: int, on_report: Callable[[str, Any], None]
    ) -> None:
        """Run batches, each on one CPU; write each result and report its name."""
        task = self._ray.remote(num_cpus=1, max_retries=_TRIES)(_results_of)
        running = {
            task.remote(program_digest(), batch.pieces): (name, batch) for name, batch in batches.items()
        }
        while running:
            done, _ = self._ray.wait(list(running), timeout=_WAIT_SECONDS)
            if not done and not self._ray.cluster_resources().get("CPU"):
                raise Unable("no node of this Ray cluster has a CPU; finished runs are kept")
            for one in done:
                name, batch = running.pop(one)
                for piece, content in self._received(one):
                    keep(batch.folder, piece, content)
                    on_report(name, piece)

    def close(self) -> None:
        """Leave the cluster; what still runs there is ended."""
        self._ray.shutdown()

    def _received(self, done: object) -> Sequence[tuple[str, Mapping[str, Any]]]:
        try:
            results: Sequence[tuple[str, Mapping[str, Any]]] = self._ray.get(done, timeout=60)
        except Exception as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, InputError | Unable):
                raise cause from None
            raise Unable(f"a run failed on Ray: {error}") from error
        return results


def _results_of(digest: str, pieces: Sequence[tuple[str, Piece]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what is written for each piece. InputError on a node with another version of Muster."""
    check_program(digest, "ray")
    return [(name, {"inputs": piece.inputs(), "result": piece.run()}) for name, piece in pieces]
