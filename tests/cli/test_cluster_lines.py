"""One-line clusters: misspelt types, amounts that only some kinds state, types that only the trace states."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.shipped import parse_cluster
from muster.problems import InputError

from .conftest import TRACE, Outcome

Muster = Callable[..., Outcome]

SACCT = """\
JobID|User|Account|State|Submit|Start|End|Elapsed|ReqTRES
1|u|a|COMPLETED|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T00:10:00|00:10:00|cpu=8,mem=64G,gres/gpu=4,gres/gpu:v100=4
2|u|a|COMPLETED|2024-01-01T00:01:00|2024-01-01T00:01:00|2024-01-01T00:11:00|00:10:00|cpu=8,mem=64G,gres/gpu=8,gres/gpu:a100=8
3|u|a|COMPLETED|2024-01-01T00:02:00|2024-01-01T00:02:00|2024-01-01T00:12:00|00:10:00|cpu=8,mem=64G,gres/gpu=1
"""


@pytest.mark.parametrize("word", ["gup", "gpuu", "pgu", "pug", "ugp", "gp", "cpu", "GUP", "gpi", "gup2"])
def test_a_type_that_resembles_gpu_is_refused(word: str) -> None:
    with pytest.raises(InputError, match=f"found '2x8{word}'; .* did you mean 2x8gpu"):
        parse_cluster(f"2x8{word}")


@pytest.mark.parametrize(
    "word", ["v100", "a100", "h100", "t4", "l40s", "gb200", "gtx", "titan", "tpu", "gpu2"]
)
def test_types_that_exist_are_taken(word: str) -> None:
    assert parse_cluster(f"2x8{word}").gpu_types == (word.upper(),)


@pytest.mark.parametrize("line", ["2x4x8gpu", "4x8X8gpu"])
def test_a_third_number_is_no_type_of_gpu(line: str) -> None:
    with pytest.raises(InputError, match=f"found '{line}'; allowed: machines x GPUs"):
        parse_cluster(line)


def test_gpus_in_the_plural_are_gpus() -> None:
    assert parse_cluster("2x8gpus").nodes == parse_cluster("2x8gpu").nodes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("2x8v100,24cpu,200gb+4x4a100", "found '4x4a100'; states no CPUs and no memory, but 2x8v100 does"),
        ("4x8gpu+2x4a100,64cpu", "found '4x8gpu'; states no CPUs, but 2x4a100 does"),
        ("1x2gpu,8cpu+1x4gpu,8cpu,1gb/s", "found '1x2gpu'; states no storage, but 1x4gpu does"),
    ],
)
def test_amounts_that_only_some_kinds_state_are_refused(line: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        parse_cluster(line)
    assert "state it for each kind or for none" in str(refused.value)


amounts = st.tuples(st.booleans(), st.booleans(), st.booleans())


@given(st.lists(amounts, min_size=1, max_size=4))
def test_kinds_state_the_same_resources_or_are_refused(kinds: list[tuple[bool, bool, bool]]) -> None:
    words = ("24cpu", "500gb", "1gb/s")
    line = "+".join(
        ",".join([f"1x{at + 1}gpu", *(word for word, stated in zip(words, kind, strict=True) if stated)])
        for at, kind in enumerate(kinds)
    )
    if len(set(kinds)) > 1:
        with pytest.raises(InputError):
            parse_cluster(line)
    else:
        assert len(parse_cluster(line).nodes) == len(kinds)


def test_assumed_amounts_are_shown_where_they_matter(muster: Muster, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    header, *jobs = TRACE.splitlines()
    trace.write_text("\n".join([f"{header},model", *(f"{job},resnet18" for job in jobs)]) + "\n")
    for cluster, said in (
        ("1x8gpu", "3 CPU cores, 62.5 GB of memory and 0.0625 GB/s of storage for each GPU"),
        ("1x8gpu,24cpu,500gb", "0.0625 GB/s of storage for each GPU"),
    ):
        done = muster("simulate", trace, "--cluster", cluster, "--out", tmp_path / cluster)
        assert done.status == 0
        assert f"cluster {cluster} does not state all resources of its nodes: assumed {said}\n" in done.err
    stated = muster("simulate", trace, "--cluster", "1x8gpu,24cpu,500gb,1gb/s", "--out", tmp_path / "out")
    assert (stated.status, stated.err) == (0, "")


def test_a_typed_log_runs_on_a_cluster_without_types(muster: Muster, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(SACCT)
    done = muster("simulate", log, "--cluster", "2x8gpu,64cpu,500gb", "--out", tmp_path / "out", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["summary"]["completed"] == 3
    assert (
        "2 of 3 jobs request a type of GPU (a100, v100); cluster 2x8gpu,64cpu,500gb states no type: "
        "they may use any GPU" in done.err
    )


def test_a_typed_log_on_other_types_is_still_refused(muster: Muster, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(SACCT)
    refused = muster("simulate", log, "--cluster", "2x8v100,64cpu,500gb", "--out", tmp_path / "out")
    assert refused.status == 2
    assert "found 'gpu_type=a100'" in refused.err
