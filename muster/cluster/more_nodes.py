"""A cluster with more nodes than it has."""

from __future__ import annotations

from dataclasses import replace

from muster.cluster.description import PARTITION, Cluster, Node
from muster.problems import InputError, Problem


def with_more(cluster: Cluster, like: Node, count: int) -> Cluster:
    """The cluster with so many more nodes like one of its own, in that node's rack and under new names."""
    names, number = set(cluster.node_index), 0
    added: list[Node] = []
    while len(added) < count:
        if (name := f"{like.name}-added-{number}") not in names:
            added.append(replace(like, name=name))
        number += 1
    return replace(cluster, nodes=(*cluster.nodes, *added)) if added else cluster


def joined(cluster: Cluster, other: Cluster, name: str) -> Cluster:
    """Both clusters as one under a name: the nodes of the other in a rack of their own, under names that are free.

    Where the first cluster has one rack, the others stand in it too. Where it has partitions and the others have none,
    they are in each of them: a job with a partition could not use them otherwise.
    """
    partitions = _partitions(cluster) if not _partitions(other) else ()
    racks = cluster.racks if len(cluster.racks) == 1 else (*cluster.racks, _free_name("added", cluster.racks))
    added: list[Node] = []
    taken = set(cluster.node_index)
    for node in other.nodes:
        labels = (*node.labels, *partitions)
        added.append(replace(node, name=_free_name(node.name, taken), rack=len(racks) - 1, labels=labels))
        taken.add(added[-1].name)
    names = ", ".join(partition.removeprefix(PARTITION) for partition in partitions)
    notes = (
        (*cluster.notes, f"{name}: the added nodes are in each partition: {names}")
        if names
        else cluster.notes
    )
    return replace(cluster, name=name, nodes=(*cluster.nodes, *added), racks=racks, notes=notes)


def _partitions(cluster: Cluster) -> tuple[str, ...]:
    """The labels of its partitions."""
    labels = (label for node in cluster.nodes for label in node.labels if label.startswith(PARTITION))
    return tuple(dict.fromkeys(labels))


def of_type(cluster: Cluster, gpu_type: str, flag: str) -> Node:
    """A node with GPUs of a type, the first of the most frequent kind. InputError if there is none."""
    alike = [node for node in cluster.nodes if node.gpus and node.gpu_type.casefold() == gpu_type.casefold()]
    if not alike:
        what = f"allowed: a type of GPU of cluster {cluster.name}: {', '.join(cluster.gpu_types)}"
        raise InputError(Problem(flag, what, found=gpu_type))
    kinds = [node.type_name for node in alike]
    return next(node for node in alike if node.type_name == max(kinds, key=kinds.count))


def _free_name(name: str, taken: object) -> str:
    number, found = 0, name
    while found in taken:  # type: ignore[operator]
        number += 1
        found = f"{name}-{number}"
    return found
