"""`muster network`, called as the command line calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.cli.network import network
from muster.problems import InputError

LAYERS = "model,fwd_ns,input_grad_ns,weight_grad_ns,allreduce_bytes\nmine,1000000,2000000,1000000,400000000\n"


def answer(capsys: pytest.CaptureFixture[str], model: str, **options: Any) -> dict[str, Any]:
    network(model, as_json=True, **options)
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_lists_each_placement_that_the_cluster_has_once(capsys: pytest.CaptureFixture[str]) -> None:
    rows = answer(capsys, "bert-large", cluster="dally-2x8x8", gpus=16)["placements"]
    found = [row["placement"] for row in rows]
    assert len(set(found)) == len(found)
    assert {"1", "4", "8", "4,4", "1,1,1,1", "1/1", "8,8", "8/8", "1,1,1,1/1,1,1,1"} <= set(found)
    by_place = {row["placement"]: row["efficiency"] for row in rows}
    assert by_place["1"] == 1.0
    assert by_place["4"] > by_place["4,4"] > by_place["8/8"]
    one_machine = answer(capsys, "bert-large", cluster="1x8gpu", gpus=8)["placements"]
    assert [row["placement"] for row in one_machine] == ["1", "2", "4", "8"]


def test_kinds_of_placement_on_machines_of_several_sizes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(
        "machines_per_rack = 5\n[types.small]\ngpus = 4\ngpus_per_island = 2\n"
        "[types.large]\ngpus = 8\ngpus_per_island = 4\n"
        '[[nodes]]\ntype = "small"\ncount = 4\n[[nodes]]\ntype = "large"\ncount = 1\n'
        "[links.island]\ngb_per_s = 300\n[links.node]\ngb_per_s = 16\n"
        "[links.rack]\ngb_per_s = 12.5\n[links.cluster]\ngb_per_s = 12.5\n"
    )
    rows = answer(capsys, "bert-large", cluster=str(tmp_path / "c.toml"), gpus=24)["placements"]
    by_kind = {(row["gpus"], row["kind"]): row for row in rows}
    # Four GPUs have an island on the large machine alone; all others fill the largest machines first.
    assert by_kind[4, "1 island"]["efficiency"] > 0.5
    assert by_kind[16, "fewest machines"]["placement"] == "8,4,4"
    assert by_kind[24, "fewest machines"]["placement"] == "8,4,4,4,4"


def test_one_placement_and_congestion(capsys: pytest.CaptureFixture[str]) -> None:
    (free,) = answer(capsys, "VGG", placement="4,4")["placements"]
    (half,) = answer(capsys, "VGG", placement="4,4", congestion=0.5)["placements"]
    assert (free["gpus"], free["placement"]) == (8, "4,4")
    assert half["iteration_seconds"] > free["iteration_seconds"]
    (astra,) = answer(capsys, "VGG", placement="4,4", flavour="astra")["placements"]
    assert astra["efficiency"] == pytest.approx(0.997, abs=0.005)  # papers' table: 2 machines x 4


def test_own_layers_and_own_model_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(LAYERS)
    (row,) = answer(capsys, "mine", layers=tmp_path / "l.csv", placement="1,1")["placements"]
    # One layer, no input gradient: 2 ms of compute, then 0.4 GB over 200 GB/s and two hops of 5 us.
    assert row["iteration_seconds"] == pytest.approx(0.002 + 0.4 / 200 + 10e-6)
    assert row["all_reduce_seconds"] == pytest.approx(row["exposed_seconds"])


def test_the_table_names_where_the_numbers_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    network("ncf", cluster="2x4gpu")
    printed = capsys.readouterr().out
    assert "2 machines" in printed
    assert "Pollux" in printed


@pytest.mark.parametrize("terminal", [{}, {"TERM": "dumb", "TTY_COMPATIBLE": "1"}])
def test_a_narrow_terminal_gets_the_whole_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: dict[str, str]
) -> None:
    for name, value in {"COLUMNS": "50", **terminal}.items():
        monkeypatch.setenv(name, value)
    network("vgg11", cluster="dally-2x8x8", gpus=8)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) == 50
    assert "…" not in printed
    assert all(f" {row}" in printed for row in ("3.63 ms  100.0 %        -", "886 us", "49.4 %  7.18 ms"))


def test_a_model_without_layers_is_insensitive_with_one_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    network("gnmt", cluster="2x4gpu")
    printed = capsys.readouterr().out
    assert printed.count("insensitive") == 1
    assert "100.0 %" in printed


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_draws_the_same_chart_twice(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        network("resnet18", cluster="dally-2x8x8", chart=path)
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) > 1000


def test_a_chart_that_exists_is_kept_unless_overwritten(tmp_path: Path) -> None:
    drawn = tmp_path / "n.svg"
    drawn.write_text("older")
    with pytest.raises(InputError, match=r"n.svg: the file exists; allowed: another name, or --overwrite"):
        network("vgg11", cluster="2x4gpu", chart=drawn)
    assert drawn.read_text() == "older"
    network("vgg11", cluster="2x4gpu", chart=drawn, overwrite=True)
    assert drawn.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        (
            "bert-lrge",
            {},
            "MODEL: found 'bert-lrge'; no such model; allowed: ",
        ),
        ("vgg11", {"placement": "4,x"}, "--placement: found '4,x'"),
        ("vgg11", {"placement": "9"}, "--placement: found '9'; dally-2x8x8 has no room"),
        ("vgg11", {"placement": "0,4"}, "--placement: found '0,4'"),
        ("vgg11", {"congestion": 1.0}, "--congestion: found 1.0"),
        ("vgg11", {"congestion": float("nan")}, "--congestion: found nan"),
        ("vgg11", {"flavour": "fast"}, "--flavour: found 'fast'; allowed: physical or astra"),
        ("vgg11", {"placement": ""}, "--placement: found ''"),
        ("vgg11", {"placement": "4,4", "gpus": 8}, "--gpus: found 8; goes without --placement"),
        ("vgg11", {"gpus": 0}, "--gpus: found 0"),
        ("vgg11", {"gpus": 129}, "--gpus: found 129; allowed: a whole number from 1 to the 128 GPUs"),
        ("vgg11", {"chart": Path("a.pdf")}, "--chart: found 'a.pdf'"),
        ("vgg11", {"overwrite": True}, "--overwrite: it is of the file of --chart"),
        ("none.toml", {}, "none.toml"),
        ("vgg11", {"layers": Path("none.csv")}, "none.csv"),
    ],
)
def test_mistakes_are_explained(model: str, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as refused:
        network(model, **options)
    assert expected in str(refused.value)


def test_a_model_that_the_layer_file_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(LAYERS)
    with pytest.raises(InputError, match="has mine"):
        network("yours", layers=tmp_path / "l.csv")
