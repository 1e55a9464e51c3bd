"""Before a run: the jobs that a scheduler sizes get the terms of their steps, and impossible ones are refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muster.cluster import Cluster
from muster.problems import InputError, Problem
from muster.schedulers.workers_and_servers.frontier import frontier
from muster.schedulers.workers_and_servers.sizes import Demands
from muster.schedulers.workers_and_servers.sizing_problem import demands_of
from muster.speed.network.models import NetworkModel
from muster.speed.network_of_jobs import AUTO, network_of_jobs
from muster.speed.parameter_server.of_jobs import steps_of, with_ring_seconds, with_terms
from muster.workload.jobs import REFUSED, JobTable
from muster.workload.sized import RESOURCES, RIGID, RING


def with_sizes(
    table: JobTable,
    cluster: Cluster,
    source: str,
    profiles: Mapping[str, NetworkModel] | None = None,
    *,
    flavour: str = AUTO,
    congestion: float = 0.0,
    skip_impossible: bool = False,
) -> JobTable:
    """The table with the steps of its sized jobs; their ideal is all the work at the best size of the limit.

    Jobs of which no node holds a worker, or a server, are refused; with `skip_impossible` they are marked as such.
    `profiles` are those of a layer file; `flavour` and `congestion` those of the network between a ring's workers.
    """
    index = np.flatnonzero(table.asked["sync"] != RIGID)
    if not len(index):
        return table
    table = with_terms(table, source, profiles)
    demands = demands_of(table, index)
    names = [f"{source}, job {job}" for job in table.ids.gather(index)]
    Demands.checked(demands.worker, demands.server, demands.limit, [*RESOURCES, "workers", "servers"], names)
    problems = _without_a_node(demands, cluster, names)
    if problems and not skip_impossible:
        raise InputError(*(problem for each in problems.values() for problem in each))
    table.facts["state"][index[list(problems)]] = REFUSED
    if (table.asked["sync"] == RING).any():
        speed = network_of_jobs(table, cluster, flavour=flavour, congestion=congestion, profiles=profiles)
        table = table if speed is None else with_ring_seconds(table, cluster, speed)
    job, sizes = frontier(steps_of(table, index), demands, table.sized["min_workers"][index])
    impossible = np.setdiff1d(np.arange(len(index)), job)
    if len(impossible):
        what = "min_workers with one server need more than the limit; raise the limit or lower min_workers"
        raise InputError(*(Problem(names[at], what) for at in impossible.tolist()))
    best = np.minimum.reduceat(sizes.seconds, np.flatnonzero(np.diff(job, prepend=-1)))
    asked = table.asked
    asked["ideal"][index] = asked["iterations"][index] * best
    return table


def _without_a_node(demands: Demands, cluster: Cluster, names: list[str]) -> dict[int, list[Problem]]:
    """By place the jobs that have no node for a worker, or none for a server, and why."""
    amounts = {(node.gpus, node.cpus, node.memory_gb, node.nic_gb_per_s) for node in cluster.nodes}
    rooms = np.array(list(amounts))
    problems: dict[int, list[Problem]] = {}
    for what, needs in (("worker", demands.worker), ("server", demands.server)):
        kinds, kind = np.unique(needs[:, : len(RESOURCES)], axis=0, return_inverse=True)
        fits = np.array([bool((need <= rooms + 1e-9).all(axis=1).any()) for need in kinds])
        for at in np.flatnonzero(~fits[kind.reshape(-1)]).tolist():
            one = ", ".join(
                f"{need:g} {name}" for need, name in zip(needs[at], RESOURCES, strict=False) if need
            )
            problem = Problem(names[at], f"no node of cluster {cluster.name} has a {what}'s {one}")
            problems.setdefault(at, []).append(problem)
    return problems
