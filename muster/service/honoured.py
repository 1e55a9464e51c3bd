"""Whether the scheduler that serves takes into account what a job asks for: a request without effect is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


def without_effect(request: JobRequest, policy: Scheduler, where: str = "request") -> Iterator[Problem]:
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
            what = f"{policy.name} ignores it; leave it out, or serve with --scheduler {serve}"
            yield Problem(where, what, column=column, found=value)
    if request.changes_size and SIZES not in honours:
        serve = f"serve with --scheduler {DEFAULT_SCHEDULER}"
        what = f"{policy.name} gives each job exactly its gpus; leave it out, or {serve}"
        for column in ("min_gpus", "max_gpus"):
            if (value := getattr(request, column)) not in (None, request.gpus):
                yield Problem(where, what, column=column, found=value)
    elif request.fewest_gpus < request.gpus and FEWER_GPUS not in honours:
        what = f"{policy.name} gives no job fewer GPUs than its gpus; leave it out, or serve with --scheduler"
        yield Problem(where, f"{what} {DEFAULT_SCHEDULER}", column="min_gpus", found=request.min_gpus)
    yield from unserved(request, policy, where)


def ignored_of_earlier_jobs(rows: Iterable[JobRow], policy: Scheduler) -> str:
    """What jobs that came before this scheduler ask for and it ignores, as a sentence without its full stop; else "".

    They are the same as in `without_effect`.
    """
    asking: dict[str, list[int]] = {}
    for row in rows:
        for problem in without_effect(row.request, policy):
            asking.setdefault(problem.column or "", []).append(row.id)
    if not asking:
        return ""
    parts = [f"{column} of {counted(len(jobs), 'job')}" for column, jobs in asking.items()]
    one = min(job for jobs in asking.values() for job in jobs)
    return (
        f"{policy.name} ignores what jobs ask for that were submitted before it served: {', '.join(parts)}. "
        f"Hint: muster why {one} says which scheduler does not"
    )


def unserved(request: JobRequest, policy: Scheduler, where: str = "request") -> Iterator[Problem]:
    """What the scheduler gives to no job: one that asks for it would wait for ever."""
    if request.gpus == 0 and WITHOUT_GPUS not in honoured(policy):
        what = f"{policy.name} has no place for jobs without GPUs; ask for one, or serve {DEFAULT_SCHEDULER}"
        yield Problem(where, what, column="gpus", found=0)
    if request.gpu_share < 1 and not divides_gpus(policy):
        serve = f"serve with --scheduler {DEFAULT_SCHEDULER}"
        what = f"{policy.name} gives whole GPUs only; leave it out, or {serve}"
        yield Problem(where, what, column="gpu_share", found=request.gpu_share)
