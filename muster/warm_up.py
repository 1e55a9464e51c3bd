"""Compiles ahead what the commands compile at their first use: `python -m muster.warm_up`, which `make install` runs.

Short simulations and the daemon's warm-up go through every shipped scheduler, so there is no list of kernels to keep.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from muster.cluster.shipped import parse_cluster
from muster.parallel import run_all
from muster.problems import InputError
from muster.schedulers.registry import build, presets
from muster.service.daemon_status import DaemonStatus
from muster.service.engines.fake import FakeEngine
from muster.service.live_scheduler import live_scheduler
from muster.service.warm_up import warm_up
from muster.simulation import Options, simulate
from muster.workload.generators import mixed, smd
from muster.workload.models import shipped_models

_DAEMON = "daemon"
_FIRST = ("las+tune-plus", "fifo", "srtf", "las")
"""The defaults of the commands, in case the rest is interrupted."""
_ROUND_SECONDS = 60.0
_CLUSTERS = ("2x8gpu", "2x2x4gpu")
_MOST_WORKERS = 4
"""More would mostly wait for each other."""


@dataclass(frozen=True)
class _Share:
    """What one process goes through: names of schedulers, or the daemon."""

    names: Sequence[str]

    def __call__(self, report: Callable[[Any], None]) -> None:
        for name in self.names:
            if name == _DAEMON:
                _warm_up_service()
            else:
                _simulate(name)
            report(name)


def main() -> None:
    """Compile everything and print how long it took."""
    began = time.monotonic()
    names = [_DAEMON, *dict.fromkeys((*_FIRST, *(preset.name for preset in presets())))]
    workers = min(os.cpu_count() or 1, _MOST_WORKERS)
    shares = {f"share {number}": _Share(names[number::workers]) for number in range(workers)}
    run_all(shares, workers, lambda *_: None)
    print(f"Compiled for {len(names)} schedulers in {time.monotonic() - began:.0f} s")


def _simulate(name: str) -> None:
    for cluster in _CLUSTERS:
        for trace in (mixed.generate(12, 16), smd.generate(4)):
            with suppress(InputError):  # A scheduler need not take all kinds of jobs.
                simulate(trace, parse_cluster(cluster), build(name), Options())


def _warm_up_service() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    warm_up(
        DaemonStatus(
            policy=live_scheduler(_FIRST[0], {}, _ROUND_SECONDS),
            engine="fake",
            engine_capabilities=FakeEngine.capabilities,
            enforces="",
            cluster=parse_cluster(_CLUSTERS[0]),
            models=shipped_models,
            round_seconds=_ROUND_SECONDS,
        )
    )


if __name__ == "__main__":
    main()
