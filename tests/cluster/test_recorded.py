"""A cluster comes back from its record as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from muster.cluster import Link, Links
from muster.cluster.recorded import cluster_of_record
from muster.cluster.shipped import parse_cluster, shipped_names
from muster.problems import InputError
from muster.sweep.cell import Cell, Made


@pytest.mark.parametrize("name", shipped_names())
def test_a_recorded_cluster_reads_back_as_the_same(name: str) -> None:
    cluster = parse_cluster(name)
    narrow = replace(cluster, links=replace(Links(), rack=Link(1.25, 1e-5, 4.0)))
    first = replace(cluster.nodes[0], labels=("new", "fast"), nic_gb_per_s=0.5)
    labelled = replace(cluster, nodes=(first, *cluster.nodes[1:]))
    for each in (cluster, narrow, labelled):
        assert cluster_of_record(json.loads(json.dumps(each.to_dict())), "run.json") == each


def test_an_earlier_record_has_the_defaults_of_a_file() -> None:
    cluster = parse_cluster("2x4gpu,12cpu,100gb")
    earlier = cluster.to_dict()
    del earlier["links"]
    earlier["nodes"] = [
        {name: node[name] for name in ("name", "type", "rack", "gpus", "gpu_type", "cpus", "memory_gb")}
        | {"storage_gb_per_s": node["storage_gb_per_s"]}
        for node in earlier["nodes"]  # type: ignore[attr-defined]
    ]
    assert cluster_of_record(earlier, "run.json") == cluster


def test_every_wrong_field_of_a_record_is_named() -> None:
    wrong = parse_cluster("2x4gpu").to_dict()
    wrong["nodes"][0]["gpus"] = "many"  # type: ignore[index]
    wrong["links"]["rack"]["gb_per_s"] = None  # type: ignore[index]
    with pytest.raises(InputError) as refused:
        cluster_of_record(wrong, "run.json")
    assert [problem.column for problem in refused.value.problems] == [
        "cluster.nodes.0.gpus",
        "cluster.links.rack.gb_per_s",
    ]


def test_other_links_make_another_cell_of_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    text = '[types.a]\ngpus = 8\n[[nodes]]\ntype = "a"\ncount = 2\n[links.rack]\ngb_per_s = {}\n'
    cell = Cell(Made("synergy", {"jobs": 1}), str(file), "fifo")
    said = []
    for speed in (100, 10):
        file.write_text(text.format(speed))
        said.append(cell.inputs()["cluster"])
    assert said[0] != said[1]
