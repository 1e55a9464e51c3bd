"""`--overwrite` replaces what the same command wrote, and nothing else; a place that cannot be is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.advise.sites import job, node, site

from .conftest import TRACE, Outcome, muster_process

Muster = Callable[..., Outcome]

WRITING_A_FOLDER = {
    "simulate": ("trace.csv", "--cluster", "1x8gpu", "--snapshot-at", "0"),
    "compare": ("trace.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--scheduler", "las"),
    "capacity": (
        "trace.csv",
        "--cluster",
        "1x8gpu",
        "--add",
        "1x8gpu nodes 0..1",
        "--target",
        "mean wait < 1h",
    ),
    "advise": ("site/sacct.txt", "--cluster", "site/scontrol.txt"),
    "generate slurm-month": ("--jobs", "20"),
}


def command(name: str, out: str) -> tuple[str, ...]:
    """The command line that writes into a folder."""
    flag = "-o" if name.startswith("generate") else "--out"
    return (*name.split(), *WRITING_A_FOLDER[name], flag, out)


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the commands run in, with what they read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "site").mkdir()
    jobs = [job("1", (0, 0, 30), "n1,n2", 4, 4), job("2", (0, 30, 60), "n1", 4, 4)]
    site(tmp_path / "site", jobs, (node("n1"), node("n2")))
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    """All files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", WRITING_A_FOLDER)
def test_a_folder_with_own_files_is_not_replaced(inputs: Path, muster: Muster, name: str) -> None:
    """Of what the command itself has written nothing is named."""
    first = muster(*command(name, "out"))
    assert first.status == 0, first.err
    if name == "simulate":
        assert muster("report", "out", "--format", "html", "--format", "csv").status == 0
    for own in ("thesis.txt", "notes/thesis.txt", "charts/thesis.txt"):
        thesis = inputs / "out" / own
        made = not thesis.parent.exists()
        thesis.parent.mkdir(exist_ok=True)
        thesis.write_text("years of work")
        before = contents(inputs)
        refused = muster(*command(name, "out"), "--overwrite")
        assert refused.status == 2
        shown = (own, own.partition("/")[0])
        assert any(f"out: found '{one}'; allowed with --overwrite: " in refused.err for one in shown)
        assert "Hint: move the other files" in refused.err
        assert contents(inputs) == before
        thesis.unlink()
        if made:
            thesis.parent.rmdir()


@pytest.mark.parametrize("name", ["simulate", "generate slurm-month"])
def test_a_folder_of_the_same_command_is_replaced(inputs: Path, muster: Muster, name: str) -> None:
    assert muster(*command(name, "out")).status == 0
    before = contents(inputs)
    for path in (inputs / "out").iterdir():
        path.write_text("older")
    again = muster(*command(name, "out"), "--overwrite")
    assert again.status == 0, again.err
    assert contents(inputs).keys() == before.keys()
    assert b"older" not in contents(inputs).values()


@pytest.mark.parametrize("name", WRITING_A_FOLDER)
def test_a_folder_of_no_command_is_not_replaced(inputs: Path, muster: Muster, name: str) -> None:
    """It holds the input, and a page such as the command writes."""
    (inputs / "data").mkdir()
    (inputs / "trace.csv").rename(inputs / "data" / "trace.csv")
    (inputs / "data" / "report.html").write_text("mine")
    (inputs / "trace.csv").symlink_to("data/trace.csv")
    refused = muster(*command(name, "data"), "--overwrite")
    assert refused.status == 2
    assert "data: found 'report.html, trace.csv'; allowed with --overwrite: " in refused.err
    assert (inputs / "data" / "trace.csv").read_text() == TRACE


def test_a_simulation_does_not_replace_a_comparison(inputs: Path, muster: Muster) -> None:
    """Not even if it has a run's marker: each command replaces only what it writes itself."""
    assert muster(*command("simulate", "out")).status == 0
    (inputs / "out" / "comparison.json").touch()
    for name in ("simulate", "compare"):
        assert muster(*command(name, "out"), "--overwrite").status == 2
    assert (inputs / "out" / "comparison.json").exists()


def test_advice_does_not_replace_the_log_beside_it(inputs: Path, muster: Muster) -> None:
    (inputs / "site" / "advice.json").touch()
    refused = muster(*command("advise", "site"), "--overwrite")
    assert refused.status == 2
    assert "site: found 'sacct.txt, scontrol.txt'; allowed" in refused.err
    assert (inputs / "site" / "sacct.txt").exists()


def test_many_own_files_are_named_in_part(inputs: Path, muster: Muster) -> None:
    (inputs / "data").mkdir()
    for number in range(9):
        (inputs / "data" / f"{number}.txt").touch()
    refused = muster(*command("simulate", "data"), "--overwrite")
    assert "data: found '0.txt, 1.txt, 2.txt and 6 more'; allowed" in refused.err


def test_own_files_among_charts_are_kept(inputs: Path, muster: Muster) -> None:
    assert muster(*command("simulate", "out")).status == 0
    assert muster("report", "out").status == 0
    (inputs / "out" / "charts" / "thesis.txt").touch()
    refused = muster("report", "out")
    assert refused.status == 2
    assert "charts: found 'thesis.txt'; allowed" in refused.err
    assert (inputs / "out" / "charts" / "thesis.txt").exists()


FILLING = """\
from pathlib import Path

from muster.schedulers.parts import Order

class Filling(Order):
    name = "filling"

    def key(self, jobs):
        Path("out").mkdir(exist_ok=True)
        Path("out/thesis.txt").touch()
        return jobs.gpus * 1.0
"""


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("older", [False, True])
def test_a_folder_filled_while_a_run_goes_on_is_kept(tmp_path: Path, *, overwrite: bool, older: bool) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "mine.py").write_text(FILLING)
    flags = ("--cluster", "1x8gpu", "--out", "out")
    if older and overwrite:
        assert muster_process("simulate", "trace.csv", *flags, folder=tmp_path).status == 0
    elif older:
        (tmp_path / "out").mkdir()
    before = {path.name for path in tmp_path.glob("out/*")}
    more = ("--overwrite",) if overwrite else ()
    run = ("trace.csv", *flags, *more, "--scheduler", "mine.py:Filling")
    refused = muster_process("simulate", *run, folder=tmp_path)
    assert (refused.status, refused.out) == (2, "")
    assert "while the command ran, so its result is not saved; " in refused.err
    assert {path.name for path in tmp_path.glob("out/*")} == before | {"thesis.txt"}
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"trace.csv", "mine.py", "out"}


@pytest.mark.parametrize("out", ["x" * 256, f"deep/{'x' * 256}", f"{'x' * 256}/deep", "x/" * 2100])
@pytest.mark.parametrize("name", WRITING_A_FOLDER)
def test_a_name_too_long_is_refused_before_the_run(inputs: Path, muster: Muster, name: str, out: str) -> None:
    before = sorted(inputs.iterdir())
    refused = muster(*command(name, out))
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.endswith(f"{Path(out)}: cannot be written: File name too long\n")
    assert sorted(inputs.iterdir()) == before
