"""The living jobs, and what of them is new in this turn and has yet to be written down and acted upon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from muster.cluster.ledger import Share
from muster.schedulers.contract import Trigger
from muster.service.board import Board
from muster.service.conductor.columns import LiveColumns
from muster.service.conductor.starts import Start
from muster.service.store.rows import Changes, JobRow


class LivingJobs:
    """What the parts of the conductor share; nothing of it is changed but by them, in their turn."""

    def __init__(self, board: Board) -> None:
        self.rows: dict[int, JobRow] = {}
        """As the store has them, with the changes of this turn."""
        self.starts: dict[int, Start] = {}
        """What runs."""
        self.planned: dict[int, tuple[Share, ...]] = {}
        """What should run: the allocations on the books."""
        self.active: set[int] = set()
        """Jobs that compete: neither held nor on their way out."""
        self.not_before: dict[int, float] = {}
        """When a job whose processes keep dying may be started again."""
        self.columns = LiveColumns(board.cluster, board.models)
        self.pending: int = Trigger.ARRIVAL
        """Triggers since the last decision."""
        self.newest = 0
        """The largest id that is known."""
        self.changes = Changes()
        self.acts: list[Callable[[], None]] = []
        """What to do once the changes are on the disk; each may be repeated."""

    def begin_turn(self) -> None:
        """Nothing is new."""
        self.changes, self.acts = Changes(), []

    def set(self, job: int, **fields: Any) -> None:
        """New values for some fields of a job."""
        self.changes.job(job, **fields)
        self.rows[job] = replace(self.rows[job], **fields)

    def carried_out(self, row: JobRow) -> None:
        """What was wished of a job has happened; a wish that came meanwhile stays."""
        if row.wish is not None:
            self.changes.carried_out[row.id] = row.wish
            self.rows[row.id] = replace(self.rows[row.id], wish=None)
