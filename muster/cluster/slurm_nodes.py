"""The cluster of a Slurm site, from what `scontrol show node` or `sinfo --json` prints, and its topology.

A file may hold what several commands print, one after the other: `scontrol show node; scontrol show topology`, with or
without `--oneliner`, also a topology.conf. Nodes keep their names, GPUs their Slurm type (MIG profiles too); features
become labels, partitions labels like `partition:train`, switches of the lowest level and blocks become racks. A node
with GPUs of several types becomes a node for each type, `n1:a100` and `n1:t4`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from typing import Any

from muster.cluster.cluster_file import FIRST_RACK, NodeType, machine
from muster.cluster.description import ANY_GPU, PARTITION, WEIGHT, Cluster, Links
from muster.formatting import counted
from muster.problems import InputError, Problem
from muster.units import GB_PER_MIB

_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_:/]*)=")
_FREE_TEXT = frozenset({"Comment", "Extra", "Reason"})
_BEHIND_FREE_TEXT = _FREE_TEXT | {"InstanceId", "InstanceType", "ReservationName"}
_STARTS = ("NodeName=", "SwitchName=", "BlockName=")
_NOTHING = frozenset({"", "(null)", "N/A", "NONE", "None", "Unknown"})
_MIG = re.compile(r"(\d+)g\.\d+gb", re.IGNORECASE)
"""A MIG profile, alone or in a type such as a100_1g.5gb: how many sevenths of a GPU it has."""
_GPU = re.compile(r"gpu(?::(?:\(null\)|(?P<type>[^:(]+)))?:(?P<count>\d+)")
DRAINED = "DRAIN"
"""Part of the state of a node on which jobs that run go on, and none starts."""
UNUSABLE = ("DOWN", DRAINED, "FAIL", "NOT_RESPONDING", "POWERED_DOWN", "INVAL")
"""Parts of the state of a node on which nothing can start now."""
RESERVED = ("MAINT", "RESERVED")
"""Parts of the state of a node on which jobs that run go on, and others start only inside a reservation."""
_AWAY = frozenset(
    {
        *(
            "DOWN",
            "DRAIN",
            "DRAINED",
            "DRAINING",
            "FAIL",
            "FAILING",
            "NOT_RESPONDING",
            "INVAL",
            "INVALID_REG",
        ),
        *("MAINT", "MAINTENANCE", "ERROR", "FUTURE", "UNKNOWN", "REBOOT_ISSUED"),
    }
)
"""Words of the state of a node that will not start jobs soon. One that is powered down to save energy does."""
_STATE_WORD = re.compile(r"[A-Z_]+")
_OF_TYPE = ":"
"""Between the name of a node and the type of GPU, in the name of a part; no name of Slurm has one."""
_RANGES = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True)
class _SlurmNode:
    """One node as Slurm describes it."""

    name: str
    cpus: float
    memory_mib: float
    gres: str
    features: tuple[str, ...]
    partitions: tuple[str, ...]
    state: str
    weight: str = "1"


@dataclass(frozen=True)
class SlurmSite:
    """A cluster and what a reader of it should know."""

    cluster: Cluster
    notes: tuple[str, ...]
    away: frozenset[str] = frozenset()
    """Nodes that are down, drained or in maintenance: nothing starts on them now."""


def read_slurm_site(text: str, where: str, name: str, *, by_type: bool = True) -> SlurmSite:
    """Return the cluster that Slurm's output describes. InputError if it names no node, or none with a GPU.

    A node with GPUs of several types becomes one for each type. Without `by_type` it has its most frequent type alone,
    under the name that Slurm knows.
    """
    if text.lstrip().startswith("{"):
        nodes, racks = _nodes_of_json(text, where), {}
    else:
        entries = list(_entries(text))
        nodes = [_node_of_fields(fields, where) for fields in entries if "NodeName" in fields]
        racks = _racks(entries)
    if not nodes:
        allowed = "allowed: what scontrol show node or sinfo --json prints"
        raise InputError(Problem(where, f"it describes no node; {allowed}"))
    return _site(list({node.name: node for node in nodes}.values()), racks, name, by_type=by_type)


def host_of(node: str) -> str:
    """Return the node of Slurm that a node of the cluster is, or is a part of."""
    return node.partition(_OF_TYPE)[0]


def expand_hosts(text: str) -> list[str]:
    """Return the names that a host list of Slurm stands for: `n[1-2,7],x[01-02]y[1-2]`."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        pieces = _RANGES.split(part.strip())
        choices = [_range(piece) if at % 2 else [piece] for at, piece in enumerate(pieces)]
        names += ["".join(chosen) for chosen in product(*choices)]
    return [name for name in names if name]


def read_fields(line: str) -> dict[str, str]:
    """Return the fields of a node or partition of `scontrol show`; a value ends where the next name begins.

    One of free text ends with its line, or where a field begins that Slurm prints behind it.
    """
    found: list[re.Match[str]] = []
    for one in _FIELD.finditer(line):
        in_free_text = bool(found) and found[-1][1] in _FREE_TEXT
        if not in_free_text or one[0].startswith("\n") or one[1] in _BEHIND_FREE_TEXT:
            found.append(one)
    ends = [*(one.start() for one in found[1:]), len(line)]
    pairs = ((one[1], line[one.end() : end].strip()) for one, end in zip(found, ends, strict=True))
    return {name: "" if value in _NOTHING else value for name, value in pairs}


def _entries(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each node, switch and block; other output of Slurm between them is passed over."""
    entry: list[str] = []
    for line in [*text.splitlines(), ""]:
        begins = line.strip().startswith(_STARTS)
        if entry and (begins or not line.strip() or not line.startswith((" ", "\t"))):
            yield read_fields("\n".join(entry))
            entry = []
        if begins or entry:
            entry.append(line.strip())


def _node_of_fields(fields: Mapping[str, str], where: str) -> _SlurmNode:
    name = fields["NodeName"]
    if name.upper() == "DEFAULT" or set(name) & set("[,"):
        what = "allowed: one node an entry. Hint: a slurm.conf does not do; take the output of scontrol show node"
        raise InputError(Problem(where, what, None, "NodeName", name))
    return _SlurmNode(
        name,
        _number(fields, ("CPUEfctv", "CPUTot", "CPUs"), f"{where}, node {name}"),
        _number(fields, ("RealMemory",), f"{where}, node {name}"),
        fields.get("Gres", ""),
        _parts(fields.get("AvailableFeatures", "")),
        _parts(fields.get("Partitions", "")),
        fields.get("State", "").upper(),
        fields.get("Weight", "") or "1",
    )


def _number(fields: Mapping[str, str], names: Sequence[str], where: str) -> float:
    for name in names:
        value = fields.get(name, "")
        if value.isdigit():
            return float(value)
        if value:
            raise InputError(Problem(where, "allowed: a whole number", None, name, value))
    raise InputError(Problem(where, "is missing", None, names[-1]))


def _nodes_of_json(text: str, where: str) -> list[_SlurmNode]:
    """Return the nodes of `sinfo --json`: one entry for each node up to Slurm 22.05, for each kind of node since."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(Problem(where, f"is not JSON: {error}")) from error
    try:
        if "nodes" in content:
            return [_node_of_json(entry) for entry in content["nodes"]]
        return _merged(node for entry in content["sinfo"] for node in _nodes_of_kind(entry))
    except (KeyError, TypeError, ValueError) as error:
        allowed = "allowed: what sinfo --json or scontrol show node --json prints"
        raise InputError(
            Problem(where, f"an entry lacks or has another form of {error}; {allowed}")
        ) from error


def _node_of_json(entry: Mapping[str, Any]) -> _SlurmNode:
    state = entry["state"]
    flags = entry.get("state_flags") or []
    states = [state] if isinstance(state, str) else state
    return _SlurmNode(
        entry["name"],
        float(entry.get("effective_cpus") or entry["cpus"]),
        float(entry["real_memory"]),
        entry.get("gres") or "",
        _parts(entry.get("features") or ""),
        _parts(entry.get("partitions") or ""),
        "+".join([*states, *flags]).upper(),
        str(entry.get("weight") or 1),
    )


def _nodes_of_kind(entry: Mapping[str, Any]) -> Iterator[_SlurmNode]:
    for name in entry["nodes"]["nodes"]:
        yield _SlurmNode(
            name,
            float(entry["cpus"]["minimum"]),
            float(entry["memory"]["minimum"]),
            entry["gres"]["total"],
            _parts(entry["features"]["total"]),
            (entry["partition"]["name"],),
            "+".join(entry["node"]["state"]).upper(),
            str(entry.get("weight", {}).get("minimum") or 1),
        )


def _merged(nodes: Iterable[_SlurmNode]) -> list[_SlurmNode]:
    """Return each node once, with all its partitions."""
    merged: dict[str, _SlurmNode] = {}
    for node in nodes:
        before = merged.get(node.name)
        partitions = tuple(dict.fromkeys([*(before.partitions if before else ()), *node.partitions]))
        merged[node.name] = _SlurmNode(**{**vars(node), "partitions": partitions})
    return list(merged.values())


def _parts(given: str | Sequence[str]) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(part.strip() for part in parts if part.strip() not in _NOTHING)


def _range(piece: str) -> list[str]:
    names: list[str] = []
    for part in piece.split(","):
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isdigit() and last.isdigit()):
            names.append(part)
            continue
        names += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return names


def _racks(entries: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the rack of each node: its switch of the lowest level, else its block."""
    racks: dict[str, str] = {}
    for fields in entries:
        rack = fields.get("SwitchName") or fields.get("BlockName")
        lowest = fields.get("Level", "0") == "0" and "Switches" not in fields
        if rack and lowest:
            racks |= dict.fromkeys(expand_hosts(fields.get("Nodes", "")), rack)
    return racks


def _site(nodes: Sequence[_SlurmNode], rack_of: Mapping[str, str], name: str, *, by_type: bool) -> SlurmSite:
    """Return the cluster, racks in the order of the topology and nodes without one last."""
    links = Links()
    places = {rack: at for at, rack in enumerate(dict.fromkeys(rack_of.values()))}
    ordered = sorted(nodes, key=lambda node: places.get(rack_of.get(node.name, ""), len(places)))
    racks = list(dict.fromkeys(rack_of.get(node.name, FIRST_RACK) for node in ordered))
    types: dict[str, NodeType] = {}
    machines = []
    for node in ordered:
        rack = racks.index(rack_of.get(node.name, FIRST_RACK))
        for part in _parts_by_type(node) if by_type else [node]:
            kind = _kind(part)
            names = [name for name, known in types.items() if known == kind]
            type_name = names[0] if names else f"type-{len(types)}-{kind.gpus}x{kind.gpu_type}"
            types[type_name] = kind
            machines.append(machine(kind, type_name, part.name, rack, links))
    hosts_away = {node.name for node in nodes if _AWAY & set(_STATE_WORD.findall(node.state))}
    away = frozenset(one.name for one in machines if host_of(one.name) in hosts_away)
    divided = [node for node in nodes if by_type and len(_gpus(node)) > 1]
    notes = tuple(_notes(nodes, rack_of, hosts_away, divided))
    return SlurmSite(Cluster(name, tuple(machines), tuple(racks), links), notes, away)


def _parts_by_type(node: _SlurmNode) -> list[_SlurmNode]:
    """Return the node, or where its GPUs are of several types a part for each, with CPUs and memory by its GPUs.

    CPUs stay whole. A GPU by MIG counts by its sevenths, so that parts of GPUs leave whole ones their CPUs.
    """
    gpus = _gpus(node)
    if len(gpus) < 2:
        return [node]
    bounds = [0.0, *accumulate(count * _size(gpu_type) for gpu_type, count in gpus.items())]
    bounds = [bound / bounds[-1] for bound in bounds]
    return [
        replace(
            node,
            name=f"{node.name}{_OF_TYPE}{gpu_type}",
            cpus=max(float(round(node.cpus * to) - round(node.cpus * since)), 1.0),
            memory_mib=node.memory_mib * (to - since),
            gres=f"gpu:{gpu_type}:{count}",
        )
        for (gpu_type, count), (since, to) in zip(gpus.items(), pairwise(bounds), strict=True)
    ]


def _size(gpu_type: str) -> float:
    """Return how much of a GPU one of this type is."""
    profile = _MIG.search(gpu_type)
    return int(profile[1]) / 7 if profile else 1.0


def _kind(node: _SlurmNode) -> NodeType:
    gpu_type, gpus = max(_gpus(node).items(), key=lambda one: one[1], default=(ANY_GPU, 0))
    return NodeType(
        gpus=gpus,
        gpu_type=gpu_type,
        cpus=node.cpus,
        memory_gb=round(node.memory_mib * GB_PER_MIB, 3),
        labels=(
            *node.features,
            *(f"{PARTITION}{name}" for name in node.partitions),
            *((f"{WEIGHT}{node.weight}",) if node.weight != "1" else ()),
        ),
    )


def _gpus(node: _SlurmNode) -> Counter[str]:
    """Return how many GPUs of each type a node has."""
    found: Counter[str] = Counter()
    for one in _GPU.finditer(node.gres):
        found[one["type"] or ANY_GPU] += int(one["count"])
    return found


def _notes(
    nodes: Sequence[_SlurmNode],
    rack_of: Mapping[str, str],
    away: Collection[str],
    divided: Sequence[_SlurmNode],
) -> Iterator[str]:
    """Yield what the cluster leaves out or takes from elsewhere."""
    if away:
        yield f"{counted(len(away), 'node')} down or drained now, kept in the cluster"
    if divided:
        several = f"{counted(len(divided), 'node')} with GPUs of several types, such as {divided[0].name}"
        yield (
            f"{several}: each type is a node of its own, such as {_parts_by_type(divided[0])[0].name}, with CPUs "
            "and memory in proportion to its GPUs (those by MIG count by their sevenths)"
        )
    shared = [node for node in nodes if re.search(r"(?:shard|mps):", node.gres)]
    if shared:
        yield f"{counted(len(shared), 'node')} with shared GPUs (shard or mps): GPUs are counted whole"
    if len({node.weight for node in nodes}) > 1:
        yield "weights of nodes are labels, by which the scheduler slurm alone goes"
    if not rack_of:
        yield "no topology: all nodes are in one rack. Hint: add the output of scontrol show topology"
    yield "speeds of links are assumed: see [links] of the file"
