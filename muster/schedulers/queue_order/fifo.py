"""First in, first out, in the two readings that "FIFO" has."""

from dataclasses import dataclass
from typing import ClassVar

from muster.schedulers.contract import Floats, Jobs
from muster.schedulers.parts import Order


@dataclass(frozen=True)
class Fifo(Order):
    """Earliest arrival first; what does not fit is passed by later jobs, running jobs are left alone."""

    name: ClassVar[str] = "fifo"
    compiled: ClassVar[int | None] = 0
    preemptive: ClassVar[bool] = False
    static_priority: ClassVar[bool] = True

    def key(self, jobs: Jobs) -> Floats:
        """Arrival."""
        return jobs.arrival


@dataclass(frozen=True)
class FifoStrict(Fifo):
    """Earliest arrival first; a job that does not fit blocks all behind it, gangs are kept together."""

    name: ClassVar[str] = "fifo-strict"
    compiled: ClassVar[int | None] = 0
    strict: ClassVar[bool] = True
    default_placement: ClassVar[str] = "consolidate"
