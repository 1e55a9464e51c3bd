"""`muster generate` and `muster convert`: files that Muster reads again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cluster.shipped import parse_cluster
from muster.workload.trace import read_trace

from .conftest import Outcome

Muster = Callable[..., Outcome]


@pytest.mark.parametrize(
    "words",
    [
        ("synergy", "--jobs", "50", "--load", "9", "--split", "20,70,10", "--multi-gpu"),
        ("philly-like", "--jobs", "50", "--per-hour", "20"),
        ("mixed", "--jobs", "50", "--gpus", "64", "--load", "0.8"),
    ],
)
def test_a_generated_trace_reads_back_and_its_seed_decides_it(
    muster: Muster, tmp_path: Path, words: tuple[str, ...]
) -> None:
    paths = [tmp_path / f"{name}.csv" for name in ("one", "same", "other")]
    for path, seed in zip(paths, ("42", "42", "43"), strict=True):
        done = muster("generate", *words, "--seed", seed, "-o", path, "--json")
        assert done.status == 0
        assert json.loads(done.out)["jobs"] == 50
    assert len(read_trace(paths[0]).jobs) == 50
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("synergy", "--jobs", "0", "-o", "t.csv"), "--jobs"),
        (("synergy", "--jobs", "5", "--split", "a,b", "-o", "t.csv"), "--split: found 'a,b'"),
        (("synergy", "--jobs", "5", "-o", "t.xlsx"), ".csv"),
        (("mixed", "--jobs", "5", "--gpus", "8", "--load", "-1", "-o", "t.csv"), "--load"),
    ],
)
def test_a_trace_that_cannot_be_made_is_not(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = muster("generate", *words)
    assert refused.status == 2
    assert said in refused.err
    assert not list(tmp_path.iterdir())


KINDS = {
    "synergy": (),
    "philly-like": (),
    "mixed": ("--gpus", "8"),
    "smd": (),
    "slurm-month": ("--gpus", "32"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_is_refused_before_jobs_are_made(muster: Muster, tmp_path: Path, kind: str) -> None:
    """Of two errors that of the place comes first."""
    (tmp_path / "file").touch()
    words = ("generate", kind, "--jobs", "0", *KINDS[kind])
    refused = muster(*words, "-o", tmp_path / "file" / "new.csv")
    assert (refused.status, "new.csv: cannot be written: " in refused.err) == (2, True), refused.err


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "slurm-month"])
def test_generate_replaces_a_file_only_if_asked(muster: Muster, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("mine\n")
    words = ("generate", kind, "--jobs", "5", *KINDS[kind], "-o", path)
    refused = muster(*words)
    said = f"{path}: the file exists; allowed: another name, or --overwrite\n"
    assert (refused.status, refused.err, path.read_text()) == (2, said, "mine\n")
    assert muster(*words, "--overwrite").status == 0
    assert len(read_trace(path).jobs) == 5


@pytest.mark.parametrize("name", ["ours.csv", "ours.toml"])
def test_convert_replaces_a_file_only_if_asked(muster: Muster, tmp_path: Path, name: str) -> None:
    source, output = tmp_path / "theirs.csv", tmp_path / name
    nodes = "sn,cpu_milli,memory_mib,gpu,model\na,8000,1024,2,T4\n"
    source.write_text(
        nodes if name.endswith(".toml") else "job_id,submit_seconds,gpus,duration_seconds\na,0,1,5\n"
    )
    output.write_text("mine\n")
    refused = muster("convert", source, "-o", output)
    said = f"{output}: the file exists; allowed: another name, or --overwrite\n"
    assert (refused.status, refused.err, output.read_text()) == (2, said, "mine\n")
    done = muster("convert", source, "-o", output, "--overwrite")
    assert (done.status, "mine" in output.read_text()) == (0, False), done.err


def test_a_list_of_nodes_has_no_columns_of_jobs(muster: Muster, tmp_path: Path) -> None:
    source = tmp_path / "nodes.csv"
    source.write_text("sn,cpu_milli,memory_mib,gpu,model\na,8000,1024,2,T4\n")
    flags = ("--from", "acme", "--map", "gpus=gpu")
    refused = muster("convert", source, "-o", tmp_path / "nodes.toml", *flags)
    assert (refused.status, (tmp_path / "nodes.toml").exists()) == (2, False)
    assert "--from: found 'acme'; a list of nodes is read as openb's" in refused.err
    assert "--map: found 'gpus=gpu'; columns are those of jobs" in refused.err


def test_convert_checks_its_place_before_it_reads(muster: Muster, tmp_path: Path) -> None:
    refused = muster("convert", tmp_path / "absent.csv", "-o", tmp_path / "absent" / "ours.csv")
    assert "ours.csv: cannot be written: " in refused.err


def test_any_table_is_converted_by_naming_its_columns(muster: Muster, tmp_path: Path) -> None:
    source = tmp_path / "theirs.csv"
    source.write_text("arrival_s,num_gpu,run_s,colour\n5,2,100,red\n7,1,50,blue\n")
    output = tmp_path / "ours.parquet"
    mapping = "submit=arrival_s,gpus=num_gpu,duration=run_s"
    done = muster("convert", source, "-o", output, "--map", mapping)
    assert (done.status, done.out) == (0, f"2 jobs in {output}\n")
    assert "colour" in done.err
    jobs = read_trace(output).jobs
    assert jobs["duration_seconds"].to_list() == [100.0, 50.0]


def test_a_log_is_not_converted_onto_itself(muster: Muster, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("at,gpus,run,note\n5,1,100,mine\n")
    (tmp_path / "link.csv").symlink_to(log)
    named = ("--map", "submit=at,duration=run")
    for output in (log, tmp_path / "link.csv"):
        found = muster("convert", log, "-o", output, *named, "--overwrite")
        assert (found.status, "the file that is converted" in found.err) == (2, True), found.err
    assert "mine" in log.read_text()


def test_what_is_no_trace_is_not_converted(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("a,b\n1,2\n")
    refused = muster("convert", tmp_path / "theirs.csv", "-o", tmp_path / "ours.csv")
    assert refused.status == 2
    assert "--map" in refused.err
    assert not (tmp_path / "ours.csv").exists()


def test_a_list_of_nodes_becomes_a_cluster_file(
    muster: Muster, unshipped_reference: Path, tmp_path: Path
) -> None:
    source = unshipped_reference / "data/clusters/alibaba_openb_gpu_nodes.csv.xz"
    output = tmp_path / "openb.toml"
    done = muster("convert", source, "-o", output, "--json")
    answer = json.loads(done.out)
    cluster = parse_cluster(str(output))
    assert (answer["nodes"], answer["gpus"]) == (len(cluster.nodes), cluster.total_gpus)


def test_a_load_is_refused_where_all_jobs_arrive_at_once(muster: Muster, tmp_path: Path) -> None:
    words = ("synergy", "--jobs", "5", "--static", "-o", tmp_path / "trace.csv")
    refused = muster("generate", *words, "--load", "4")
    assert refused.status == 2
    assert (
        "--load: found 4.0; with --static all jobs arrive at time 0; leave one of the two out" in refused.err
    )
    assert not (tmp_path / "trace.csv").exists()
    assert muster("generate", *words).status == 0
