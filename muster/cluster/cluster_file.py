"""The cluster file: TOML in, checked field by field; and out again for converters.

A file has node types, groups of machines of a type, and optionally the links by level:

    machines_per_rack = 8

    [types.v100]
    gpus = 8
    cpus = 24
    memory_gb = "500GB"

    [[nodes]]
    type = "v100"
    count = 16

    [links.rack]
    gb_per_s = "100Gbit/s"

A problem names its field by its way through the file (`nodes.2.count`: the second `[[nodes]]`) and its line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import chain, count, groupby
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from muster.checked_toml import Way, field_problem, parse_toml
from muster.cluster.description import ANY_GPU, MAX_GPUS_PER_NODE, Cluster, Link, Links, Node
from muster.cluster.resources import FURTHER, UNKNOWN
from muster.files import write_aside
from muster.formatting import counted
from muster.problems import InputError, Problem
from muster.units import parse_gb, parse_gb_per_s, parse_seconds

CPUS_PER_GPU = 3.0
MEMORY_GB_PER_GPU = 62.5
STORAGE_GB_PER_S_PER_GPU = 0.0625
"""What a GPU comes with where a type says nothing: Synergy's servers (8 GPUs, 24 CPUs, 500 GB, 500 MB/s)."""

Contradiction: TypeAlias = tuple[Way, str, object]
"""A field that is right alone and wrong beside others: its way through the file, what is wrong, what was found."""

MAX_MACHINES = 100_000
"""Machines of one group: far above any cluster, low enough to stop a slip of the finger."""
FIRST_RACK = "rack-0"

Gb = Annotated[float, BeforeValidator(parse_gb)]
GbPerSecond = Annotated[float, BeforeValidator(parse_gb_per_s)]
Seconds = Annotated[float, BeforeValidator(parse_seconds)]
Name = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeType(_Table):
    """One kind of machine."""

    gpus: int = Field(ge=0, le=MAX_GPUS_PER_NODE, strict=True)
    gpu_type: Name = ANY_GPU
    gpus_per_island: int | None = Field(default=None, ge=1, le=MAX_GPUS_PER_NODE, strict=True)
    """GPUs of one NVLink island; left out: all GPUs of the machine are one."""
    cpus: float | None = Field(default=None, gt=0, allow_inf_nan=False, strict=True)
    memory_gb: Gb | None = Field(default=None, gt=0)
    storage_gb_per_s: GbPerSecond | None = Field(default=None, ge=0)
    nic_gb_per_s: GbPerSecond | None = Field(default=None, gt=0)
    """Left out: the speed of the rack's links."""
    labels: tuple[Name, ...] = ()
    resources: dict[Name, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    """Amounts of the resources that do not come with Muster; left out: none."""


class NodeGroup(_Table):
    """Machines of one type, next to each other in the walk of placement."""

    type: Name
    count: int | None = Field(default=None, ge=1, le=MAX_MACHINES, strict=True)
    names: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Instead of `count`; machines without a name of their own are `node-0`, `node-1`, ..."""
    rack: Name | None = None
    """Left out: racks are filled in turn with `machines_per_rack`."""


class LinkTable(_Table):
    """One level of links; what is left out keeps Dally's constant for that level."""

    gb_per_s: GbPerSecond | None = Field(default=None, gt=0)
    latency_seconds: Seconds | None = Field(default=None, ge=0)
    oversubscription: float | None = Field(default=None, ge=1, allow_inf_nan=False, strict=True)


class LinksTable(_Table):
    """Links by level."""

    island: LinkTable = LinkTable()
    node: LinkTable = LinkTable()
    rack: LinkTable = LinkTable()
    cluster: LinkTable = LinkTable()


class ClusterFile(_Table):
    """The whole file."""

    name: Name | None = None
    machines_per_rack: int | None = Field(default=None, ge=1, strict=True)
    """For machines without a rack of their own; left out: all those stand in one rack."""
    types: dict[Name, NodeType] = Field(min_length=1)
    nodes: list[NodeGroup] = Field(min_length=1)
    links: LinksTable = LinksTable()


def cluster_from_toml(text: str, where: str, name: str) -> Cluster:
    """The cluster that a TOML text describes; `where` and `name` say what it is called."""
    file = parse_toml(text, where, ClusterFile)
    problems = list(_between_fields(file, text, where))
    if problems:
        raise InputError(*problems)
    return _build(file, name)


def write_cluster_file(cluster: Cluster, path: Path) -> None:
    """Writes a file that reads back as the same cluster, racks in the order of their first machine."""
    with write_aside(path) as aside:
        aside.write_text(_to_toml(cluster), encoding="utf-8")


def machine(kind: NodeType, type_name: str, name: str, rack: int, links: Links) -> Node:
    """One machine of a type, with what the type leaves out filled in."""
    storage = kind.storage_gb_per_s
    return Node(
        name=name,
        type_name=type_name,
        rack=rack,
        gpus=kind.gpus,
        gpu_type=kind.gpu_type,
        gpus_per_island=kind.gpus_per_island or max(kind.gpus, 1),
        cpus=kind.cpus or CPUS_PER_GPU * kind.gpus,
        memory_gb=kind.memory_gb or MEMORY_GB_PER_GPU * kind.gpus,
        storage_gb_per_s=STORAGE_GB_PER_S_PER_GPU * kind.gpus if storage is None else storage,
        nic_gb_per_s=kind.nic_gb_per_s or links.rack.gb_per_s,
        labels=kind.labels,
        further=tuple(kind.resources.get(resource.name, 0.0) for resource in FURTHER),
    )


def assumed(kinds: Iterable[NodeType]) -> str:
    """What stands for the resources that these kinds of nodes leave out; empty if they state all."""
    with_gpus = [kind for kind in kinds if kind.gpus]
    shares = (
        ("cpus", f"{CPUS_PER_GPU:g} CPU cores"),
        ("memory_gb", f"{MEMORY_GB_PER_GPU:g} GB of memory"),
        ("storage_gb_per_s", f"{STORAGE_GB_PER_S_PER_GPU:g} GB/s of storage"),
    )
    left_out = [share for field, share in shares if any(getattr(kind, field) is None for kind in with_gpus)]
    *first, last = left_out or [""]
    return f"{', '.join(first)}{' and ' if first else ''}{last} for each GPU" if last else ""


def _between_fields(file: ClusterFile, text: str, where: str) -> Iterator[Problem]:
    """What is wrong although each field alone is right."""
    for way, what, found in chain(_in_types(file), _in_groups(file), _in_names(file)):
        yield field_problem(text, where, way, what, found)


def _in_types(file: ClusterFile) -> Iterator[Contradiction]:
    """Types whose own fields contradict each other."""
    for name, kind in file.types.items():
        way = ("types", name)
        if kind.gpus_per_island and kind.gpus_per_island > max(kind.gpus, 1):
            what = f"an island lies within a machine, and this type has {counted(kind.gpus, 'GPU')}"
            yield (*way, "gpus_per_island"), what, kind.gpus_per_island
        known = {one.name: one for one in FURTHER}
        for resource, amount in kind.resources.items():
            if resource not in known:
                yield (*way, "resources", resource), UNKNOWN, resource
            elif not known[resource].allows(amount):
                what = f"allowed: a whole number of {known[resource].unit}"
                yield (*way, "resources", resource), what, amount
        if kind.gpus == 0:
            for field in ("cpus", "memory_gb"):
                if getattr(kind, field) is None:
                    yield (*way, field), "a type without GPUs must state it", None


def _in_groups(file: ClusterFile) -> Iterator[Contradiction]:
    """Groups of machines that contradict themselves or the types, and a cluster without any GPU."""
    for at, group in enumerate(file.nodes):
        if group.type not in file.types:
            what = f"there is no such type; the file has {', '.join(file.types)}"
            yield ("nodes", at, "type"), what, group.type
        if group.names and group.count is not None:
            what = "the names already give the number of machines; leave the count out"
            yield ("nodes", at, "count"), what, group.count
    if not any(file.types[group.type].gpus for group in file.nodes if group.type in file.types):
        yield ("nodes",), "no machine has a GPU; allowed: at least one", None


def _in_names(file: ClusterFile) -> Iterator[Contradiction]:
    """Names that several machines have, each once."""
    seen: Counter[str] = Counter()
    for at, group in enumerate(file.nodes):
        for name in _names(group, seen.total()):
            seen[name] += 1
            if seen[name] == 2:
                yield ("nodes", at, "names"), "two machines have this name; each needs its own", name


def _names(group: NodeGroup, before: int) -> tuple[str, ...]:
    """What the machines of a group are called; `before`: how many machines the groups above it have."""
    return group.names or tuple(f"node-{before + at}" for at in range(group.count or 1))


def _build(file: ClusterFile, name: str) -> Cluster:
    links = Links(*(_link(file.links, level.name) for level in fields(Links)))
    racks: dict[str, int] = {}
    nodes: list[Node] = []
    without_rack = 0
    for group in file.nodes:
        for own_name in _names(group, len(nodes)):
            rack = group.rack
            if rack is None:
                rack = f"rack-{without_rack // file.machines_per_rack if file.machines_per_rack else 0}"
                without_rack += 1
            index = racks.setdefault(rack, len(racks))
            nodes.append(machine(file.types[group.type], group.type, own_name, index, links))
    used = [file.types[group.type] for group in file.nodes]
    return Cluster(file.name or name, tuple(nodes), tuple(racks), links, assumed(used))


def _link(links: LinksTable, level: str) -> Link:
    given: LinkTable = getattr(links, level)
    default: Link = getattr(Links(), level)
    return replace(default, **given.model_dump(exclude_none=True))


def _to_toml(cluster: Cluster) -> str:
    types = _type_names(cluster)
    lines = [f"name = {_quoted(cluster.name)}"]
    for kind, type_name in types.items():
        lines += ["", f"[types.{_quoted(type_name)}]"]
        for field in NodeType.model_fields:
            if field == "resources":
                continue
            value = getattr(kind, field)
            shown = f"[{', '.join(map(_quoted, value))}]" if field == "labels" else _shown(value)
            lines.append(f"{field} = {shown}")
        amounts = zip(FURTHER, kind.further, strict=True)
        lines += [f"resources.{resource.name} = {amount!r}" for resource, amount in amounts if amount]
    at = 0
    for (kind, rack), group in groupby(cluster.nodes, key=lambda node: (_kind(node), node.rack)):
        names = [node.name for node in group]
        lines += ["", "[[nodes]]", f"type = {_quoted(types[kind])}", f"rack = {_quoted(cluster.racks[rack])}"]
        if names == [f"node-{at + index}" for index in range(len(names))]:
            lines.append(f"count = {len(names)}")
        else:
            lines.append(f"names = [{', '.join(map(_quoted, names))}]")
        at += len(names)
    for level in fields(Links):
        link: Link = getattr(cluster.links, level.name)
        lines += ["", f"[links.{level.name}]"]
        lines += [f"{field.name} = {getattr(link, field.name)!r}" for field in fields(Link)]
    return "\n".join(lines) + "\n"


def _kind(node: Node) -> Node:
    """The node without what is its own: equal for all machines of one kind."""
    return replace(node, name="", rack=0)


def _type_names(cluster: Cluster) -> dict[Node, str]:
    """A name for each kind of machine: its type's, numbered where one name stands for several kinds."""
    names: dict[Node, str] = {}
    for kind in dict.fromkeys(map(_kind, cluster.nodes)):
        tried = (f"{kind.type_name}-{number}" for number in count(2))
        taken = set(names.values())
        names[kind] = next(name for name in chain([kind.type_name], tried) if name not in taken)
    return names


def _shown(value: str | float) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes, and the one character that JSON leaves as it is and TOML forbids."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
