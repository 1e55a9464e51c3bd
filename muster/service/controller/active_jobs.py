"""The living jobs, and what of them is new in this turn and has yet to be written down and acted upon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from muster.schedulers.contract import Trigger
from muster.service.controller.columns import LiveColumns
from muster.service.controller.occupied import Occupied
from muster.service.controller.starts import Start
from muster.service.daemon_status import DaemonStatus
from muster.service.engines import Seat
from muster.service.store.rows import Changes, JobRow


class ActiveJobs:
    """What the parts of the controller share; nothing of it is changed but by them, in their turn."""

    def __init__(self, board: DaemonStatus) -> None:
        self.rows: dict[int, JobRow] = {}
        """As the store has them, with the changes that are not written yet."""
        self.starts: dict[int, Start] = {}
        """What runs; changed by `begin`, `resize` and `end` alone, which keep `occupied` true."""
        self.occupied = Occupied(board.cluster)
        """What the starts really have; some of them may have been asked to go."""
        self.planned: dict[int, tuple[Seat, ...]] = {}
        """What should run: the allocations on the books."""
        self.active: set[int] = set()
        """Jobs that compete: neither held nor on their way out."""
        self.not_before: dict[int, float] = {}
        """When a job whose processes keep dying may be started again."""
        self.columns = LiveColumns(board.cluster, board.models, board.restart_cost_seconds)
        self.pending: int = Trigger.ARRIVAL
        """Triggers since the last decision."""
        self.newest = 0
        """The largest id that is known."""
        self.changes = Changes()
        self.acts: list[Callable[[], None]] = []
        """What to do once the changes are on the disk; each may be repeated."""

    def nothing_new(self) -> None:
        """All that was new is written down."""
        self.changes, self.acts = Changes(), []

    def begin(self, start: Start) -> None:
        """A start runs from now on, or is found to."""
        self.starts[start.job] = start
        self.occupied.take(start.seats)

    def resize(self, start: Start, seats: tuple[Seat, ...]) -> None:
        """A start has other seats."""
        self.occupied.give_back(start.seats)
        start.seats = seats
        self.occupied.take(seats)

    def end(self, start: Start) -> None:
        """A start has ended."""
        del self.starts[start.job]
        self.occupied.give_back(start.seats)

    def set(self, job: int, **fields: Any) -> None:
        """New values for some fields of a job."""
        self.changes.job(job, **fields)
        self.rows[job] = replace(self.rows[job], **fields)

    def carried_out(self, row: JobRow) -> None:
        """What was wished of a job has happened; a wish that came meanwhile stays."""
        if row.wish is not None:
            self.changes.carried_out[row.id] = row.wish
            self.rows[row.id] = replace(self.rows[row.id], wish=None)
