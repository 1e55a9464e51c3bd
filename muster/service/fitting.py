"""Whether a cluster could hold a job at all, if it held nothing else: else it would wait for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from muster.cluster import Cluster, Node
from muster.cluster.resources import RESOURCES
from muster.formatting import counted
from muster.problems import InputError, Problem
from muster.service.request import JobRequest
from muster.workload.jobs import nodes_allowed

_PLACES = {resource.name: place for place, resource in enumerate(RESOURCES)}
"""Of each resource in `Node.amounts`."""


def misfits(
    request: JobRequest,
    cluster: Cluster,
    where: str = "request",
    *,
    nodes_together: bool = True,
    even_gangs: bool = False,
    fixed_gpus: int | None = None,
) -> Iterator[Problem]:
    """All for which no state of the cluster has room.

    `nodes_together`: a job may have GPUs of several nodes. `even_gangs`: then as many of each. `fixed_gpus`: those that
    it keeps, whatever sizes its owner allows.
    """
    nodes: Sequence[Node] = cluster.nodes
    if request.constraint:
        try:
            allowed = nodes_allowed(request.constraint, cluster, where)
        except InputError as bad:
            yield from bad.problems
            return
        nodes = [node for node, may in zip(cluster.nodes, allowed, strict=True) if may]
    whose = f"cluster {cluster.name} has" if len(nodes) == len(cluster.nodes) else "the nodes it may use have"
    fewest = request.fewest_gpus if fixed_gpus is None else fixed_gpus
    count = "gpus" if request.min_gpus is None or fixed_gpus is not None else "min_gpus"
    if not _reach((node.gpus for node in nodes), fewest):
        what = f"{whose} {counted(sum(node.gpus for node in nodes), 'GPU')}; ask for at most so many"
        yield Problem(where, what, column=count, found=fewest)
        if not any(node.gpus for node in nodes):
            return
    if not nodes_together and (largest := max(node.gpus for node in nodes)) < fewest:
        what = f"a node has at most {counted(largest, 'GPU')}, "
        what += "and processes on several nodes do not reach each other here"
        yield Problem(where, what, column=count, found=fewest)
        return
    part = fewest / request.gpus if request.gpus else 1.0
    amounts = {name: amount * part for name, amount in request.least_amounts.items()}
    requests = {"cpus": 0.0, "memory_gb": 0.0} | amounts
    gpus = min(fewest, sum(node.gpus for node in nodes))
    columns = {one: f"resources.{one}" for one in request.resources} | {
        "cpus": "cpus",
        "memory_gb": "own_memory_gb" if request.memory_gb is None else "memory_gb",
    }
    beside = f" beside {counted(gpus, 'GPU')}" if gpus else ""
    each_fits = True
    units = {one.name: one.unit for one in RESOURCES} | {"memory_gb": "GB of memory"}
    for quantity, wanted in requests.items():
        unit = units[quantity]
        if not _fits(nodes, gpus, {quantity: wanted}):
            most = max(_amount(node, quantity) for node in nodes if node.gpus or not gpus)
            what = f"{whose} no room for so much{beside}; a node has at most {most:g} {unit}"
            yield Problem(where, what, column=columns[quantity], found=wanted)
            each_fits = False
    if each_fits and not _fits(nodes, gpus, requests):
        others = [
            f"{amount:g} {units[name]}" for name, amount in requests.items() if name != "cpus" and amount
        ]
        what = f"{whose} no room for so many CPU cores together with {' and '.join(others)}{beside}"
        yield Problem(where, what, column="cpus", found=requests["cpus"])
    elif each_fits and even_gangs and gpus:
        yield from _uneven(nodes, gpus, requests, where)


def _fits(nodes: Iterable[Node], gpus: int, requests: Mapping[str, float]) -> bool:
    """Whether empty nodes hold these amounts: on one node without GPUs, else divided over the GPUs."""
    if gpus == 0:
        return any(all(_amount(node, name) >= amount for name, amount in requests.items()) for node in nodes)
    return _reach((_gpus_with(node, gpus, requests) for node in nodes), gpus)


def _uneven(nodes: Sequence[Node], gpus: int, requests: Mapping[str, float], where: str) -> Iterator[Problem]:
    """The problem of a gang that cannot have as many GPUs on each of its nodes, with the next sizes that can."""

    def is_even(size: int) -> bool:
        wanted = {name: amount * size / gpus for name, amount in requests.items()}
        fit = [_gpus_with(node, size, wanted) for node in nodes]
        return any(
            size % parts == 0 and sum(one >= size // parts for one in fit) >= parts
            for parts in range(1, min(size, len(fit)) + 1)
        )

    if not is_even(gpus):
        total = sum(node.gpus for node in nodes)
        below = next((size for size in range(gpus - 1, 0, -1) if is_even(size)), None)
        above = next((size for size in range(gpus + 1, total + 1) if is_even(size)), None)
        sizes = " or ".join(str(size) for size in (below, above) if size is not None)
        what = (
            f"the engine gives a job as many GPUs on each of its nodes, and these cannot be; ask for {sizes}"
        )
        yield Problem(where, what, column="gpus", found=gpus)


def _amount(node: Node, name: str) -> float:
    """What a node has of a resource."""
    return node.amounts[_PLACES[name]]


def _reach(amounts: Iterable[int], wanted: int) -> bool:
    """Whether they come to so much; most often the first ones do."""
    return any(total >= wanted for total in accumulate(amounts, initial=0))


def _gpus_with(node: Node, gpus: int, requests: Mapping[str, float]) -> int:
    """GPUs of a node that can have their part of each of these amounts."""
    fit = [_amount(node, name) / (amount / gpus) + 1e-9 for name, amount in requests.items() if amount > 0]
    return int(min(node.gpus, *fit)) if fit else node.gpus  # a tiny amount fits infinitely often
