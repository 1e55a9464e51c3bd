"""Whether the scheduler that serves takes into account what a job asks for: a request without effect is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import floor

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import MICRO
from muster.formatting import counted
from muster.problems import InputError, Problem
from muster.schedulers.contract import Scheduler
from muster.schedulers.honours import (
    DEADLINE,
    EVEN_GANGS,
    FEWER_GPUS,
    FURTHER_RESOURCES,
    PRIORITY,
    REQUESTS,
    SIZES,
    WITHOUT_GPUS,
    divides_gpus,
    gives_only_requests,
    honoured,
)
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow


def check_scheduler(policy: Scheduler, engine: str, *, even_gangs: bool) -> None:
    """InputError if the scheduler does not keep to a limit of the engine: `even_gangs`, as many GPUs on each node."""
    if even_gangs and EVEN_GANGS not in honoured(policy):
        what = f"engine {engine} gives a job as many GPUs on each of its nodes, and this scheduler does not plan so"
        raise InputError(Problem("--scheduler", f"{what}. Hint: {DEFAULT_SCHEDULER}", found=policy.name))


def amounts_if_unstated(policy: Scheduler, cluster: Cluster) -> dict[str, float]:
    """CPU cores and GB for each GPU of a job that states none, where the scheduler gives no more than is requested.

    The least share of a GPU on any node, as with DefCpuPerGPU and DefMemPerGPU of Slurm. Other schedulers choose
    themselves.
    """
    nodes = [node for node in cluster.nodes if node.gpus]
    if not gives_only_requests(policy) or not nodes:
        return {}
    shares = {
        "cpus": min(node.cpus / node.gpus for node in nodes),
        "memory_gb": min(node.memory_gb / node.gpus for node in nodes),
    }
    return {name: floor(share * MICRO) / MICRO for name, share in shares.items()}


@dataclass(frozen=True)
class Ignored:
    """Something that a job asks for and the scheduler ignores, or gives to no job."""

    column: str
    found: object
    why: str
    scheduler: str
    """One that does not."""
    instead: str = ""
    """What to ask for in its place; "": it can be left out."""

    def before_submission(self, where: str) -> Problem:
        """With what to change in a request."""
        change = f"ask for {self.instead}" if self.instead else "leave it out"
        what = f"{self.why}; {change}, or serve with --scheduler {self.scheduler}"
        return Problem(where, what, column=self.column, found=self.found)

    def of_job(self, job: int) -> Problem:
        """With what the owner of a job that was submitted can do."""
        change = f"with {self.instead}" if self.instead else f"without {self.column}"
        what = (
            f"{self.why}. Hint: `muster cancel {job}` and submit it again {change}, or ask the operator to serve "
            f"with --scheduler {self.scheduler}"
        )
        return Problem(f"job {job}", what, column=self.column, found=self.found)


def without_effect(request: JobRequest, policy: Scheduler, where: str = "request") -> Iterator[Problem]:
    """All that a job asks for and the scheduler ignores, before it is submitted."""
    return (one.before_submission(where) for one in ignored(request, policy))


def ignored(request: JobRequest, policy: Scheduler) -> Iterator[Ignored]:
    """All that the job asks for and the scheduler ignores."""
    honours = honoured(policy)
    for kind, column, value, serve in (
        (PRIORITY, "priority", request.priority or None, "priority+tune-plus"),
        (DEADLINE, "deadline_seconds", request.deadline_seconds, "edf+tune-plus"),
        (REQUESTS, "cpus", request.cpus, DEFAULT_SCHEDULER),
        (REQUESTS, "memory_gb", request.memory_gb, DEFAULT_SCHEDULER),
        *(
            (FURTHER_RESOURCES, f"resources.{name}", one, DEFAULT_SCHEDULER)
            for name, one in request.resources.items()
        ),
    ):
        if value is not None and kind not in honours:
            yield Ignored(column, value, f"{policy.name} ignores it", serve)
    if request.changes_size and SIZES not in honours:
        for column in ("min_gpus", "max_gpus"):
            if (value := getattr(request, column)) not in (None, request.gpus):
                why = f"{policy.name} gives each job exactly its gpus"
                yield Ignored(column, value, why, DEFAULT_SCHEDULER)
    elif request.fewest_gpus < request.gpus and FEWER_GPUS not in honours:
        why = f"{policy.name} gives no job fewer GPUs than its gpus"
        yield Ignored("min_gpus", request.min_gpus, why, DEFAULT_SCHEDULER)
    yield from unserved(request, policy)


def ignored_of_earlier_jobs(rows: Iterable[JobRow], policy: Scheduler) -> str:
    """What jobs that came before this scheduler ask for and it ignores, as a sentence without its full stop; else "".

    They are the same as in `ignored`.
    """
    asking: dict[str, list[int]] = {}
    for row in rows:
        for one in ignored(row.request, policy):
            asking.setdefault(one.column, []).append(row.id)
    if not asking:
        return ""
    parts = [f"{column} of {counted(len(jobs), 'job')}" for column, jobs in asking.items()]
    first = min(job for jobs in asking.values() for job in jobs)
    return (
        f"{policy.name} ignores what jobs ask for that were submitted before it served: {', '.join(parts)}. "
        f"Hint: muster why {first} says which scheduler does not"
    )


def unserved(request: JobRequest, policy: Scheduler) -> Iterator[Ignored]:
    """What the scheduler gives to no job: one that asks for it would wait for ever."""
    if request.gpus == 0 and WITHOUT_GPUS not in honoured(policy):
        why = f"{policy.name} has no place for jobs without GPUs"
        yield Ignored("gpus", 0, why, DEFAULT_SCHEDULER, instead="a GPU")
    if request.gpu_share < 1 and not divides_gpus(policy):
        yield Ignored(
            "gpu_share", request.gpu_share, f"{policy.name} gives whole GPUs only", DEFAULT_SCHEDULER
        )
