"""`muster cluster`: a Slurm site as a cluster file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cluster.shipped import parse_cluster

from .conftest import Outcome

Muster = Callable[..., Outcome]
NODES = """\
NodeName=gpu1 CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=IDLE Partitions=train
NodeName=gpu2 CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=DOWN Partitions=train
"""


def test_a_list_of_nodes_becomes_a_cluster_file(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "scontrol.txt").write_text(NODES)
    done = muster("cluster", "--from", tmp_path / "scontrol.txt", "-o", tmp_path / "site.toml")
    assert done.status == 0
    assert "2 nodes with 16 GPUs" in done.out
    assert "1 node down or drained now" in done.err
    assert parse_cluster(str(tmp_path / "site.toml")).gpu_types == ("h100",)


def test_the_document_has_the_notes(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "scontrol.txt").write_text(NODES)
    done = muster("cluster", "--from", tmp_path / "scontrol.txt", "-o", tmp_path / "site.toml", "--json")
    found = json.loads(done.out)
    assert (found["nodes"], found["gpus"]) == (2, 16)
    assert any("no topology" in note for note in found["notes"])


def test_a_user_mistake_writes_nothing(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("JobID|State\n1|COMPLETED\n")
    wrong_input = muster("cluster", "--from", tmp_path / "jobs.txt", "-o", tmp_path / "site.toml")
    assert (wrong_input.status, "describes no node" in wrong_input.err) == (2, True)
    (tmp_path / "scontrol.txt").write_text(NODES)
    site = tmp_path / "site.csv"
    wrong_name = muster("cluster", "--from", tmp_path / "scontrol.txt", "-o", site)
    assert (
        wrong_name.status,
        f"--output: found '{site}'; allowed: a name that ends in .toml" in wrong_name.err,
    ) == (2, True)
    other_source = muster("cluster", "--from", "slurm", "--address", "h:1", "-o", tmp_path / "site.toml")
    assert (other_source.status, "--address: found 'h:1'; allowed: with --from ray" in other_source.err) == (
        2,
        True,
    )
    no_address = muster("cluster", "--from", "ray", "-o", tmp_path / "site.toml")
    assert (no_address.status, "--address: allowed: host and port" in no_address.err) == (2, True)
    assert not list(tmp_path.glob("site.*"))


def test_a_cluster_file_is_replaced_only_if_asked(muster: Muster, tmp_path: Path) -> None:
    source, site = tmp_path / "scontrol.txt", tmp_path / "site.toml"
    source.write_text(NODES)
    site.write_text("mine")
    refused = muster("cluster", "--from", source, "-o", site)
    said = f"{site}: the file exists; allowed: another name, or --overwrite\n"
    assert (refused.status, refused.err, site.read_text()) == (2, said, "mine")
    assert muster("cluster", "--from", source, "-o", site, "--overwrite").status == 0
    assert parse_cluster(str(site)).total_gpus


def test_a_list_of_nodes_is_not_its_own_output(muster: Muster, tmp_path: Path) -> None:
    source, link = tmp_path / "nodes.toml", tmp_path / "link.toml"
    source.write_text(NODES)
    link.symlink_to(source)
    for output in (source, link):
        refused = muster("cluster", "--from", source, "-o", output, "--overwrite")
        said = f"--output: found '{output}'; this is the file that --from reads; allowed: another file\n"
        assert (refused.status, refused.err) == (2, said)
    assert source.read_text() == NODES


def test_without_slurm_the_missing_command_is_named(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    done = muster("cluster", "--from", "slurm", "-o", tmp_path / "site.toml")
    assert (done.status, "scontrol is not installed here" in done.err) == (1, True)
