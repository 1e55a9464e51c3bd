"""Alibaba openb's list of nodes, which is a cluster and not a trace."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from muster.cluster import MAX_GPUS_PER_NODE, Cluster, Links
from muster.cluster.cluster_file import NodeType, machine
from muster.problems import InputError, Problem
from muster.units import GB_PER_MIB
from muster.workload.traces.cleaning import Cells
from muster.workload.traces.columns import Number
from muster.workload.traces.content import TraceTable, open_content
from muster.workload.traces.openb import NODE_COLUMNS, recognise_nodes

_COUNTS = (
    Number("cpu_milli", 1, 1e9, "a whole number of thousandths of a core from 1 on", whole=True),
    Number("memory_mib", 1, 1e9, "a whole number of MiB from 1 on", whole=True),
    Number("gpu", 0, MAX_GPUS_PER_NODE, f"a whole number from 0 to {MAX_GPUS_PER_NODE}", whole=True),
)


def read_nodes(path: Path | str) -> Cluster:
    """The machines as a cluster of one rack: the list names none."""
    content = open_content(Path(path))
    if not isinstance(content, TraceTable) or not recognise_nodes(content):
        what = f"this is no list of nodes; allowed: columns {', '.join(NODE_COLUMNS)}"
        raise InputError(Problem(content.where, what))
    cells = Cells(content, {})
    columns = {"sn": cells.text("sn"), "model": cells.text("model")}
    for rule in _COUNTS:
        raw = cells.raw(rule.name)
        cells.checks.refuse(raw.is_null(), rule.name, None, f"is empty; allowed: {rule.allowed}")
        columns[rule.name] = cells.checks.number(raw, rule)
    cells.checks.refuse(columns["sn"] == "", "sn", None, "is empty; allowed: the name of the machine")
    cells.checks.raise_if_any()
    return _cluster(pl.DataFrame(columns), Path(path).name.split(".")[0] or "openb")


def _cluster(machines: pl.DataFrame, name: str) -> Cluster:
    links = Links()
    kinds: dict[tuple[object, ...], tuple[str, NodeType]] = {}
    nodes = []
    for serial, model, cpu_milli, memory_mib, gpus in machines.iter_rows():
        shape = (model, cpu_milli, memory_mib, gpus)
        if shape not in kinds:
            kind = NodeType(
                gpus=int(gpus),
                gpu_type=model or "GPU",
                cpus=cpu_milli / 1000,
                memory_gb=memory_mib * GB_PER_MIB,
                gpus_per_island=None,
                storage_gb_per_s=None,
                nic_gb_per_s=None,
            )
            kinds[shape] = (f"type-{len(kinds)}-{kind.gpus}x{kind.gpu_type}", kind)
        type_name, kind = kinds[shape]
        nodes.append(machine(kind, type_name, serial, 0, links))
    return Cluster(name=name, nodes=tuple(nodes), racks=("rack-0",))
