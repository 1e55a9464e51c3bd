"""The cluster of a Slurm site, from what `scontrol show node` or `sinfo --json` prints, and its topology.

A file may hold what several commands print, one after the other: `scontrol show node; scontrol show topology`, with or
without `--oneliner`, also a topology.conf. Nodes keep their names, GPUs their Slurm type (MIG profiles too); features
become labels, partitions labels like `partition:train`, switches of the lowest level and blocks become racks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from muster.cluster.cluster_file import FIRST_RACK, NodeType, machine
from muster.cluster.description import ANY_GPU, PARTITION, WEIGHT, Cluster, Links
from muster.formatting import counted
from muster.problems import InputError, Problem

_GB_PER_MIB = 1024**2 / 1e9
_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_:/]*)=")
_FREE_TEXT = frozenset({"Comment", "Extra", "Reason"})
_BEHIND_FREE_TEXT = _FREE_TEXT | {"InstanceId", "InstanceType", "ReservationName"}
_STARTS = ("NodeName=", "SwitchName=", "BlockName=")
_NOTHING = frozenset({"", "(null)", "N/A", "NONE", "None", "Unknown"})
_GPU = re.compile(r"gpu(?::(?:\(null\)|(?P<type>[^:(]+)))?:(?P<count>\d+)")
UNUSABLE = ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "POWERED_DOWN", "INVAL")
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


def read_slurm_site(text: str, where: str, name: str) -> SlurmSite:
    """Return the cluster that Slurm's output describes. InputError if it names no node, or none with a GPU."""
    if text.lstrip().startswith("{"):
        nodes, racks = _nodes_of_json(text, where), {}
    else:
        entries = list(_entries(text))
        nodes = [_node_of_fields(fields, where) for fields in entries if "NodeName" in fields]
        racks = _racks(entries)
    if not nodes:
        allowed = "allowed: what scontrol show node or sinfo --json prints"
        raise InputError(Problem(where, f"it describes no node; {allowed}"))
    return _site(list({node.name: node for node in nodes}.values()), racks, name)


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


def _site(nodes: Sequence[_SlurmNode], rack_of: Mapping[str, str], name: str) -> SlurmSite:
    """Return the cluster, racks in the order of the topology and nodes without one last."""
    links = Links()
    places = {rack: at for at, rack in enumerate(dict.fromkeys(rack_of.values()))}
    ordered = sorted(nodes, key=lambda node: places.get(rack_of.get(node.name, ""), len(places)))
    racks = list(dict.fromkeys(rack_of.get(node.name, FIRST_RACK) for node in ordered))
    types: dict[str, NodeType] = {}
    machines = []
    for node in ordered:
        kind = _kind(node)
        names = [name for name, known in types.items() if known == kind]
        type_name = names[0] if names else f"type-{len(types)}-{kind.gpus}x{kind.gpu_type}"
        types[type_name] = kind
        rack = racks.index(rack_of.get(node.name, FIRST_RACK))
        machines.append(machine(kind, type_name, node.name, rack, links))
    away = frozenset(node.name for node in nodes if _AWAY & set(_STATE_WORD.findall(node.state)))
    return SlurmSite(
        Cluster(name, tuple(machines), tuple(racks), links), tuple(_notes(nodes, rack_of, away)), away
    )


def _kind(node: _SlurmNode) -> NodeType:
    gpu_type, gpus = max(_gpus(node).items(), key=lambda one: one[1], default=(ANY_GPU, 0))
    return NodeType(
        gpus=gpus,
        gpu_type=gpu_type,
        cpus=node.cpus,
        memory_gb=round(node.memory_mib * _GB_PER_MIB, 3),
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


def _notes(nodes: Sequence[_SlurmNode], rack_of: Mapping[str, str], away: Collection[str]) -> Iterator[str]:
    """Yield what the cluster leaves out or takes from elsewhere."""
    if away:
        yield f"{counted(len(away), 'node')} down or drained now, kept in the cluster"
    mixed = [node for node in nodes if len(_gpus(node)) > 1]
    if mixed:
        several = f"{counted(len(mixed), 'node')} with GPUs of several types, such as {mixed[0].name}"
        left = sum((_gpus(node) - Counter(dict(_gpus(node).most_common(1))) for node in mixed), Counter())
        amounts = ", ".join(f"{count:,} {gpu_type}" for gpu_type, count in sorted(left.items()))
        yield f"{several}: the most frequent type alone is kept; left out: {amounts}"
    shared = [node for node in nodes if re.search(r"(?:shard|mps):", node.gres)]
    if shared:
        yield f"{counted(len(shared), 'node')} with shared GPUs (shard or mps): GPUs are counted whole"
    if len({node.weight for node in nodes}) > 1:
        yield "weights of nodes are labels, by which the scheduler slurm alone goes"
    if not rack_of:
        yield "no topology: all nodes are in one rack. Hint: add the output of scontrol show topology"
    yield "speeds of links are assumed: see [links] of the file"
