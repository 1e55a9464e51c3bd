"""Schedulers that see less than there is, or believe something else, and that nothing else differs."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from experiments.joint.__main__ import main
from experiments.joint.ablations import ablations, beliefs
from experiments.joint.ground import Case, Make
from experiments.joint.seeing import ABLATIONS, NoisySpeeds, See, Seeing, UnknownAtFirst
from muster.runtime.records import Record
from muster.schedulers.contract import Snapshot
from muster.schedulers.registry import build

from ..building import cluster_of, job, jobs_of, run

MODELS = ("resnet18", "m5", "shufflenetv2", "bert-large")
CLUSTER = cluster_of(4, 4, 4, racks=2)


def recorded(see: See | None, cost: float = 60.0) -> Record:
    """Twelve jobs, every third elastic, on three machines in two racks."""
    rows = [
        job(40.0 * at, 400.0 + 300 * (at % 3), 1 + at % 3, model=MODELS[at % 4], min_gpus=1, max_gpus=4)
        if at % 3 == 0
        else job(40.0 * at, 400.0 + 300 * (at % 3), 1 + at % 3, model=MODELS[at % 4])
        for at in range(12)
    ]
    made = build("las+joint")
    return run(
        jobs_of(*rows),
        CLUSTER,
        made if see is None else Seeing(made, see),
        restart_cost_seconds=cost,
    ).record


@pytest.mark.parametrize("see", [lambda snapshot: snapshot, NoisySpeeds(0.0, 1)], ids=["all", "no noise"])
def test_a_true_view_changes_nothing(see: See) -> None:
    true, seen = recorded(None), recorded(see)
    assert seen.jobs.equals(true.jobs)
    assert seen.allocations.equals(true.allocations)


@pytest.mark.parametrize(
    "make",
    [
        *(see for name, see in ABLATIONS.items() if name != "prices"),
        lambda: NoisySpeeds(0.3, 1),
        UnknownAtFirst,
    ],
    ids=[*(name for name in ABLATIONS if name != "prices"), "noise", "unknown"],
)
def test_another_view_changes_the_run_and_repeats_itself(make: Callable[[], See]) -> None:
    first, again = recorded(make()), recorded(make())
    assert first.allocations.equals(again.allocations)
    assert not first.allocations.equals(recorded(None).allocations)
    assert set(first.jobs["outcome"]) == {"completed"}


@pytest.mark.parametrize(("what", "column", "share"), [("CPU", "cpus", 3.0), ("memory", "memory_gb", 62.5)])
def test_without_a_sensitivity_no_job_has_less_than_its_share(what: str, column: str, share: float) -> None:
    beside = pl.col(column) / pl.col("gpus")
    assert recorded(ABLATIONS[what]()).allocations.select((beside >= share - 1e-6).all()).item()


def test_without_elasticity_jobs_hold_what_they_ask_for() -> None:
    record = recorded(ABLATIONS["elasticity"]())
    held = record.allocations.group_by("job_id", "from_seconds").agg(pl.col("gpus").sum().alias("held"))
    joined = held.join(record.jobs.select("job_id", "gpus"), on="job_id")
    assert (joined["held"] == joined["gpus"]).all()


def test_without_prices_interruptions_cost_nothing() -> None:
    seen: list[bool] = []

    def compare(snapshot: Snapshot) -> Snapshot:
        unpriced = ABLATIONS["prices"]()(snapshot).jobs
        assert not unpriced.at(unpriced.running).interruption_cost.any()
        assert unpriced.pinned.tolist() == snapshot.jobs.pinned.tolist()
        seen.append(bool(unpriced.pinned.any()))
        return snapshot

    recorded(compare)
    assert any(seen)


def test_tables_have_a_line_for_each_view() -> None:
    def figure(name: str, seed: int, make: Make) -> float:
        """Hours: joint has one, its rivals two, and any other view than the true one costs it another."""
        own = 1 if name == "joint" else 2
        return 3600.0 * (own + (name == "joint" and isinstance(make("fifo", {}), Seeing)))

    case = Case("ground", "joint", ["rival"], figure)
    lines = list(ablations(case, 2))
    assert len(lines) == 1 + len(ABLATIONS)
    assert lines[0].split()[-2:] == ["1.00", "h"]
    assert all(line.split()[-3:] == ["2.000", "±", "0.000"] for line in lines[1:])
    shown = [line.split()[-3] for line in beliefs(case, 2)]
    assert shown == ["0.500", "1.000", "1.000"]


@pytest.mark.parametrize("ground", ["dally-tuning", "everyday", "random"])
def test_a_ground_without_such_a_table_refuses_it(
    ground: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was another ground's that was run."""
    monkeypatch.setattr("sys.argv", ["joint", "--ground", ground, "--table", "ablations"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"--table: the ground {ground} has none but its own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        (["--table", "ablations"], "no input whose name has --only 'none'"),
        ([], "compares its own schedulers"),
    ],
)
def test_dally_takes_orders_for_its_tables(
    more: list[str], refused: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tables were of one order, whichever was named; and nothing was said where nothing ran."""
    words = ["joint", "--ground", "dally", "--reference", ".", "--scheduler", "las", "--only", "none", *more]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert refused in " ".join(capsys.readouterr().err.split())
