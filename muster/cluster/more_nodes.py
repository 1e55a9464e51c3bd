"""A cluster with more nodes than it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from muster.cluster.description import PARTITION, Cluster, Node
from muster.problems import InputError, Problem


def with_more(
    cluster: Cluster, like: Node, count: int, assumed: str = "", notes: Sequence[str] = ()
) -> Cluster:
    """The cluster with so many more nodes like one, under new names; in a rack of their own where there are several.

    `assumed` and `notes` are what is to be said of the added nodes; of none, nothing is.
    """
    names, number = set(cluster.node_index), 0
    added: list[Node] = []
    while len(added) < count:
        if (name := f"{like.name}-added-{number}") not in names:
            added.append(replace(like, name=name))
        number += 1
    return _with_nodes(cluster, added, assumed, notes) if added else cluster


def joined(
    cluster: Cluster, other: Cluster, name: str, partition: str | None = None, flag: str = ""
) -> Cluster:
    """Both clusters as one under a name: the nodes of the other in a rack of their own, under names that are free.

    Where the first cluster has one rack, the others stand in it too. Where it has partitions and the others have none,
    they are in each of them, or in the one that is named: a job with a partition could not use them otherwise.
    InputError at the flag if it is none of the cluster's.
    """
    partitions = _partitions(cluster.nodes) if not _partitions(other.nodes) else ()
    if partition is not None:
        partitions = (_known(partition, partitions, cluster, flag),)
    added: list[Node] = []
    taken = set(cluster.node_index)
    for node in other.nodes:
        labels = (*node.labels, *partitions)
        added.append(replace(node, name=_free_name(node.name, taken), labels=labels))
        taken.add(added[-1].name)
    every = partitions and partition is None
    hint = "Hint: 'in PARTITION' behind the nodes names one"
    notes = [f"{name}: the added nodes are in each partition: {_names(partitions)}. {hint}"] if every else []
    return replace(_with_nodes(cluster, added, other.assumed, notes), name=name)


def _with_nodes(cluster: Cluster, added: Sequence[Node], assumed: str, notes: Sequence[str]) -> Cluster:
    """The cluster with these nodes, in its only rack or in one of their own, and with what is to be said of them."""
    racks = cluster.racks if len(cluster.racks) == 1 else (*cluster.racks, _free_name("added", cluster.racks))
    both = [part for part in (cluster.assumed, assumed and f"{assumed} of the added nodes") if part]
    return replace(
        cluster,
        nodes=(*cluster.nodes, *(replace(node, rack=len(racks) - 1) for node in added)),
        racks=racks,
        assumed=assumed if assumed == cluster.assumed else "; ".join(both),
        notes=(*cluster.notes, *notes),
    )


def _partitions(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The labels of their partitions."""
    labels = (label for node in nodes for label in node.labels if label.startswith(PARTITION))
    return tuple(dict.fromkeys(labels))


def _known(partition: str, labels: Sequence[str], cluster: Cluster, flag: str) -> str:
    """The label of a partition. InputError if it is none of these."""
    if (label := f"{PARTITION}{partition}") not in labels:
        allowed = (
            f"allowed: {_names(labels)}" if labels else f"cluster {cluster.name} has no partition for them"
        )
        raise InputError(Problem(flag, f"in PARTITION: {allowed}", found=partition))
    return label


def _names(partitions: Iterable[str]) -> str:
    return ", ".join(partition.removeprefix(PARTITION) for partition in partitions)


def of_type(
    cluster: Cluster, gpu_type: str, flag: str, partition: str | None = None
) -> tuple[Node, list[str]]:
    """A node with GPUs of a type, of a partition if one is named, the first of the most frequent kind.

    InputError if there is none. Where nodes of the type differ in their partitions, a note says which ones it has.
    """
    alike = [node for node in cluster.nodes if node.gpus and node.gpu_type.casefold() == gpu_type.casefold()]
    if not alike:
        what = f"allowed: a type of GPU of cluster {cluster.name}: {', '.join(cluster.gpu_types)}"
        raise InputError(Problem(flag, what, found=gpu_type))
    if partition is not None:
        label = _known(partition, _partitions(alike), cluster, f"{flag} {gpu_type}")
        alike = [node for node in alike if label in node.labels]
    kinds = [node.type_name for node in alike]
    found = next(node for node in alike if node.type_name == max(kinds, key=kinds.count))
    if len({frozenset(_partitions([node])) for node in alike}) == 1:
        return found, []
    own = _names(_partitions([found])) or "none"
    what = f"the added nodes are like {found.name}, in partition {own}; other nodes of this type are not"
    if partition is None:
        what += f". Hint: 'in PARTITION' at the end of {flag} names one of {_names(_partitions(alike))}"
    return found, [f"{flag} {gpu_type}: {what}"]


def _free_name(name: str, taken: object) -> str:
    number, found = 0, name
    while found in taken:  # type: ignore[operator]
        number += 1
        found = f"{name}-{number}"
    return found
