"""Debug log of a decision's phases, with the jobs of each: `muster --log-level debug simulate ...`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from muster.cluster.ledger_arrays import Bools, Ints
from muster.schedulers.contract import Snapshot

_LOG = logging.getLogger("muster.schedulers")


def phases_are_logged() -> bool:
    """Whether the phases of decisions are logged; compiled schedulers log none."""
    return _LOG.isEnabledFor(logging.DEBUG)


def log_phase(snapshot: Snapshot, phase: str, positions: Ints | Bools | Callable[[], Ints | Bools]) -> None:
    """Log the ids of the jobs at these positions of the snapshot; a function is only called where they are logged."""
    if phases_are_logged():
        at = positions() if callable(positions) else positions
        ids = ", ".join(snapshot.jobs.at(at).ids)
        _LOG.debug("at %.6g s: %s: %s", snapshot.now, phase, ids or "none")
