"""`muster compare`: every run beside the others, the same as alone; one failure fails all."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.report.notes import FLAGS, command
from muster.simulation import Options

from .conftest import GPUS_ALONE, TRACE, Outcome, muster_process
from .test_simulate import BROKEN

Muster = Callable[..., Outcome]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A folder in which two schedulers were compared, and what the command answered."""
    folder = tmp_path_factory.mktemp("compared")
    (folder / "trace.csv").write_text(TRACE)
    flags = (
        "--cluster",
        "1x8gpu",
        "--scheduler",
        "las+proportional",
        "--scheduler",
        "fifo",
        "--workers",
        "2",
    )
    return folder, muster_process("compare", "trace.csv", *flags, "--out", "both", "--json", folder=folder)


def test_runs_stand_in_the_order_asked_for(compared: tuple[Path, Outcome]) -> None:
    folder, done = compared
    assert done.status == 0
    assert done.err.endswith(GPUS_ALONE)
    answer = json.loads(done.out)
    assert answer["runs"] == ["las+proportional", "fifo"]
    assert [summary["scheduler"] for summary in answer["summaries"]] == [
        "las+proportional+pack",
        "fifo+proportional+pack",
    ]
    comparison = json.loads((folder / "both" / "comparison.json").read_text())
    assert comparison.keys() == {"runs", "figures"}
    assert comparison["runs"] == answer["runs"] == [row["run"] for row in comparison["figures"]]
    assert (folder / "both" / "report.html").stat().st_size > 10_000


def test_the_command_has_settings_of_single_schedulers(muster: Muster, tmp_path: Path) -> None:
    """And a restart cost of 0 s, which is not the default."""
    trace, first, again = tmp_path / "trace.csv", tmp_path / "first", tmp_path / "again"
    trace.write_text(TRACE)
    names = ("quota+fifo", "las", "slurm")
    settings = ("--set", "limits=b:8", "--set", "quantum_seconds=50", "--set", "bf_interval=5")
    given = ("--cluster", "1x8gpu", "--restart-cost", "0", *settings, "--out", first)
    done = muster("compare", trace, *(word for name in names for word in ("--scheduler", name)), *given)
    assert done.status == 0, done.err
    written = json.loads((first / "comparison.json").read_text())
    runs = [json.loads((first / run / "run.json").read_text()) for run in written["runs"]]
    text = command(runs)
    for flag in ("--restart-cost 0", "limits=b:8", "las.quantum_seconds=50", "bf_interval=5"):
        assert flag in text
    typed = shlex.split(text.replace("\\\n", ""))
    assert muster(*typed[1:-1], again).status == 0
    figures = json.loads((again / "comparison.json").read_text())["figures"]
    assert [{**one, "run": ""} for one in figures] == [{**one, "run": ""} for one in written["figures"]]


def test_the_log_leaves_out_the_jobs_that_all_runs_do(muster: Muster, tmp_path: Path) -> None:
    """Job 2 is too large for the cluster, and job 3 asks for CPUs, which gandiva ignores."""
    header = "job_id,submit_seconds,gpus,duration_seconds,start_seconds,end_seconds,cpus\n"
    rows = (
        "1,0,8,3600,0,3600,",
        "2,10,32,3600,36010,39610,",
        "3,20,8,3600,20,3620,999",
        "4,30,8,600,30,630,",
    )
    (tmp_path / "log.csv").write_text(header + "\n".join(rows) + "\n")
    given = ("--cluster", "2x8gpu,24cpu,500gb", "--skip-impossible", "--json", "--overwrite", "--out")

    def waits(*names: str) -> dict[str, list[float]]:
        schedulers = (word for name in names for word in ("--scheduler", name))
        done = muster("compare", tmp_path / "log.csv", *schedulers, *given, tmp_path / "out")
        assert done.status == 0, done.err
        answer = json.loads(done.out)
        rows = {"recorded": answer["recorded"], **dict(zip(answer["runs"], answer["summaries"], strict=True))}
        return {
            name: [one["jobs"], one["refused"], one["wait_seconds"]["mean"]] for name, one in rows.items()
        }

    asked, plain = "fifo", "gandiva"
    assert waits(asked) == {"recorded": [2, 2, 0], asked: [2, 2, 0]}
    both = waits(asked, plain)
    assert [both[name][:2] for name in ("recorded", asked, plain)] == [[3, 1], [2, 2], [3, 1]]


def test_flags_are_in_the_command_where_they_are_not_by_default() -> None:
    """What a flag is without being given is what the options of a run say; None varies with the rules."""
    without = {name: getattr(Options, name) for name in FLAGS}
    assert {name: default for name, (_, default) in FLAGS.items()} == without


def test_a_setting_that_differs_is_not_in_the_command() -> None:
    def run(settings: dict[str, object]) -> dict[str, object]:
        named = {
            "trace": {"source": "t.csv"},
            "cluster": {"name": "1x8gpu"},
            "rules": {},
            "knowledge": "oracle",
        }
        return {**named, "scheduler": {"name": "las", "settings": settings}}

    text = command([run({"lease_seconds": None, "strict": True}), run({"lease_seconds": 60, "strict": True})])
    assert "lease_seconds" not in text
    assert "--set strict=true" in text


def test_a_run_in_company_is_the_run_alone(
    muster: Muster, compared: tuple[Path, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = compared
    monkeypatch.chdir(folder)
    flags = ("--cluster", "1x8gpu", "--scheduler", "las+proportional", "--out", tmp_path / "alone")
    assert muster("simulate", "trace.csv", *flags).status == 0
    for path in (tmp_path / "alone").glob("*.parquet"):
        assert path.read_bytes() == (folder / "both" / "las+proportional" / path.name).read_bytes()
    assert (tmp_path / "alone" / "run.json").read_text() == (
        folder / "both" / "las+proportional" / "run.json"
    ).read_text()


def test_one_failing_run_fails_all_and_leaves_nothing(muster: Muster, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BROKEN)
    schedulers = ("--scheduler", "fifo", "--scheduler", f"{tmp_path / 'mine.py'}:Broken")
    failed = muster("compare", trace, "--cluster", "1x8gpu", *schedulers, "--out", tmp_path / "out")
    assert failed.status == 2
    assert "ZeroDivisionError: on purpose" in failed.err
    assert "Traceback" not in failed.err
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["mine.py", "trace.csv"]
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".muster*"))


def test_a_refusal_inside_a_run_is_a_refusal(muster: Muster, trace: Path, tmp_path: Path) -> None:
    refused = muster(
        "compare", trace, "--cluster", "1x4gpu", "--scheduler", "fifo", "--out", tmp_path / "out"
    )
    assert refused.status == 2
    assert "job 1 can never run" in refused.err
    assert not (tmp_path / "out").exists()


def test_a_scheduler_named_twice_is_refused(muster: Muster, trace: Path) -> None:
    refused = muster("compare", trace, "--cluster", "1x8gpu", "--scheduler", "las", "--scheduler", "las")
    assert refused.status == 2
    assert "--scheduler: found 'las'; is named twice" in refused.err


TWO_CLASSES = """\
from muster.schedulers.parts import Order

class Mine(Order):
    name = "{}"

    def key(self, jobs):
        return jobs.gpus * 1.0

class Other(Mine):
    name = "{}"
"""


@pytest.mark.parametrize(
    ("names", "like"),
    [(("mine", "mine"), "mine.py:Mine"), (("mine", "fifo"), "fifo"), (("mine", "other"), "")],
)
def test_schedulers_of_the_same_name_are_refused(
    muster: Muster, trace: Path, monkeypatch: pytest.MonkeyPatch, *, names: tuple[str, str], like: str
) -> None:
    monkeypatch.chdir(trace.parent)
    Path("mine.py").write_text(TWO_CLASSES.format(*names))
    given = ("--scheduler", "fifo", "--scheduler", "mine.py:Mine", "--scheduler", "mine.py:Other")
    done = muster("compare", trace.name, "--cluster", "1x8gpu", *given, "--out", "out")
    said = (
        f"--scheduler: found 'mine.py:Other'; it is called {names[1]}+proportional+pack, as {like} is; "
        "name each once, and give classes of your own different names\n"
    )
    assert (done.status, done.err) == (2, said) if like else done.status == 0
    assert Path("out").exists() == (not like)


def test_a_page_is_made_again(muster: Muster, compared: tuple[Path, Outcome]) -> None:
    folder, _ = compared
    page = folder / "both" / "report.html"
    page.unlink()
    done = muster("report", folder / "both", "--json")
    assert json.loads(done.out) == {"report": str(page)}
    assert page.exists()
    refused = muster("report", folder / "both", "--format", "pdf")
    assert refused.status == 2
    assert "--format" in refused.err
    assert "html, svg, png, csv" in refused.err
    absent = muster("report", folder / "absent")
    assert absent.status == 2
    assert "no such folder" in absent.err


def test_a_setting_counts_for_the_schedulers_that_have_it(
    muster: Muster, trace: Path, tmp_path: Path
) -> None:
    schedulers = ("--scheduler", "slurm", "--scheduler", "fifo+easy", "--scheduler", "fifo")
    chosen = ("--set", "bf_interval=30", "--set", "reservations=2")
    done = muster("compare", trace, "--cluster", "1x8gpu", *schedulers, *chosen, "--out", tmp_path / "out")
    assert done.status == 0
    assert "--set bf_interval: of slurm alone\n--set reservations: of fifo+easy alone\n" in done.err
    runs = {name: json.loads((tmp_path / "out" / name / "run.json").read_text()) for name in schedulers[1::2]}
    assert runs["slurm"]["scheduler"]["settings"]["slurm-cycles"]["bf_interval"] == 30
    assert runs["fifo+easy"]["scheduler"]["settings"]["easy"]["reservations"] == 2


@pytest.mark.parametrize(
    ("first", "second", "setting", "alone"),
    [
        ("fifo+easy", "fifo+conservative", "easy.depth=5", True),
        ("las", "smd", "promote_after_seconds=60", False),
        ("las", "fifo+easy", "preemptive=true", True),
    ],
)
def test_a_setting_of_a_part_or_of_the_whole_counts_there_alone(
    muster: Muster, trace: Path, tmp_path: Path, first: str, second: str, setting: str, alone: bool
) -> None:
    named = ("--scheduler", first, "--scheduler", second, "--set", setting)
    done = muster("compare", trace, "--cluster", "1x8gpu", *named, "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert (f"--set {setting.partition('=')[0]}: of {first} alone" in done.err) == alone


def test_a_setting_that_none_has_is_refused_for_each(muster: Muster, trace: Path) -> None:
    refused = muster(
        "compare",
        trace,
        "--cluster",
        "1x8gpu",
        "--scheduler",
        "las",
        "--scheduler",
        "fifo",
        "--set",
        "quanta=3",
    )
    assert refused.status == 2
    assert refused.err.count("has no such setting") == 2


def test_a_note_names_the_schedulers_that_it_is_about(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["a,0,2,1,4,600", "b,10,4,1,8,600"]
    Path("trace.csv").write_text(
        "\n".join(["job_id,submit_seconds,gpus,min_gpus,max_gpus,duration_seconds", *rows, ""])
    )
    done = muster("compare", "trace.csv", "--cluster", "2x8gpu", "--workers", "1", "--out", "out")
    assert done.status == 0
    said = "slurm-like, fifo and las ignore min_gpus and max_gpus, which 2 jobs of 2 state"
    assert said in done.err.splitlines()
    assert "this scheduler" not in done.err
    page = Path("out/report.html").read_text()
    assert "Trace: slurm-like, fifo" in page
    assert " ignore min_gpus and max_gpus, which 2 jobs of 2 state." in page
    assert "this scheduler" not in page
    flags = ("--scheduler", "fifo", "--scheduler", "las", "--out", "two")
    alike = muster("compare", "trace.csv", "--cluster", "2x8gpu", "--workers", "1", *flags)
    assert "this scheduler ignores min_gpus and max_gpus, which 2 jobs of 2 state" in alike.err.splitlines()
