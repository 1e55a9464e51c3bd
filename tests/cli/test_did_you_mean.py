"""Names that resemble known ones, and settings: what was found, what is allowed, what was probably meant."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from muster.problems import InputError
from muster.simulation import rules_named

from .conftest import TRACE, Outcome

Muster = Callable[..., Outcome]
SIMULATE = ("simulate", "{trace}", "--cluster", "1x8gpu", "--out", "{out}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("simulat",), "Did you mean 'simulate'"),
        (("simulate", "t.csv", "--clster", "1x8gpu"), "--cluster"),
        (("generate", "synergi"), "Did you mean 'synergy'"),
        (
            (*SIMULATE, "--scheduler", "las+tunee"),
            "found 'tunee in las+tunee'; no such part or preset. Hint: did you mean tune",
        ),
        (
            (*SIMULATE, "--scheduler", "quota + muster"),
            "found 'quota + muster'; a preset comes first; allowed: muster+quota",
        ),
        ((*SIMULATE, "--scheduler", "dally+muster"), "found 'dally+muster'; allowed: one preset"),
        ((*SIMULATE, "--scheduler", "mine.py"), "Hint: name a class of the file too: mine.py:CLASS"),
        ((*SIMULATE, "--scheduler", "synergy-published:fifoo"), "did you mean synergy-published:fifo"),
        (("schedulers", "laz"), "did you mean las"),
        (("simulate", "{trace}", "--cluster", "synergy16", "--out", "{out}"), "did you mean synergy-16"),
        (("network", "resnet5", "--cluster", "2x8gpu"), "did you mean resnet50"),
        (("size", "resnet5", "--limit", "gpu=8,cpu=64,memory_gb=256,nic=10Gbit/s"), "did you mean resnet50"),
        ((*SIMULATE, "--scheduler", "las", "--set", "quantum_second=5"), "did you mean quantum_seconds?"),
        (("reproduce", "synergi"), "synergy"),
        ((*SIMULATE, "--rules", "synergy-publishd"), "did you mean synergy-published"),
        ((*SIMULATE, "--rules", "dally"), "did you mean dally-published?"),
        ((*SIMULATE, "--network", "fysical"), "did you mean physical?"),
        ((*SIMULATE, "--network", "AUTO"), "did you mean auto?"),
        ((*SIMULATE, "--knowledge", "oracel"), "did you mean oracle?"),
        ((*SIMULATE, "--knowledge", "noisi:0.5"), "did you mean noisy?"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(
    muster: Muster, trace: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    refused = muster(*(word.format(trace=trace, out=tmp_path / "out") for word in arguments))
    assert refused.status == 2
    assert said in refused.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("installed", [True, False])
def test_rules_like_no_others_are_in_the_repository_perhaps(
    monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    if not installed:
        monkeypatch.setattr("muster.simulation.rules.entry_points", lambda group: EntryPoints())
    with pytest.raises(InputError) as refused:
        rules_named("qqq")
    assert ("clone the source repository" in str(refused.value)) is not installed


def test_a_misspelt_model_of_a_trace_is_noted(muster: Muster, tmp_path: Path) -> None:
    header, *jobs = TRACE.splitlines()
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([f"{header},model", *(f"{job},resnet81" for job in jobs)]) + "\n")
    done = muster("simulate", path, "--cluster", "1x8gpu", "--out", tmp_path / "out")
    assert done.status == 0
    assert "no model file for resnet81 (did you mean resnet18" in done.err


def test_a_model_without_an_input_stage_is_noted_apart(muster: Muster, tmp_path: Path) -> None:
    header, *jobs = TRACE.splitlines()
    models = ["pollux-ncf", "not-known", "pollux-bert", "pollux-bert", "resnet18"]
    rows = [f"{job},{model}" for job, model in zip(jobs, models, strict=True)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([f"{header},model", *rows]) + "\n")
    done = muster("simulate", path, "--cluster", "1x8gpu", "--out", tmp_path / "out")
    insensitive = "taken as insensitive to CPU, memory and storage\n"
    assert f"no model file for not-known: {insensitive}" in done.err
    assert f"no CPU and memory profile of pollux-bert, pollux-ncf: {insensitive}" in done.err


@pytest.mark.parametrize(
    ("scheduler", "pair", "said"),
    [
        (
            "las",
            "quantum_seconds=soon",
            "--set quantum_seconds: found 'soon'; quantum_seconds takes a number",
        ),
        ("fifo", "strict=maybe", "--set strict: found 'maybe'; strict takes true or false"),
        (
            "las",
            "quantum=3",
            "--set quantum: found '3'; las has no such setting; allowed: ",
        ),
        (
            "opt+fifo",
            "nodes=-1",
            "--set nodes: found '-1'; exact_variables and nodes are whole numbers from 0 on",
        ),
        (
            "2d-las",
            "thresholds=3,1",
            "--set thresholds: found '3,1'; thresholds: allowed: ascending numbers above 0",
        ),
        (
            "oasis",
            "slot_seconds=0",
            "--set slot_seconds: found '0'; slot_seconds: allowed: a number of seconds above 0",
        ),
        (
            "oasis",
            "slot_seconds=inf",
            "--set slot_seconds: found 'inf'; slot_seconds: allowed: a number of seconds",
        ),
        (
            "oasis",
            "horizon_slots=0",
            "--set horizon_slots: found '0'; horizon_slots: allowed: a whole number from 1 on",
        ),
        (
            "smd",
            "interval_seconds=inf",
            "--set interval_seconds: found 'inf'; interval_seconds: allowed: a number of",
        ),
        ("smd", "hysteresis=inf", "--set hysteresis: found 'inf'; hysteresis is a finite number from 0 on"),
        ("las", "quantum_seconds=-5", "--set quantum_seconds: found '-5'; quantum_seconds"),
        ("fifo", "promote_after_seconds=-1", "--set promote_after_seconds: found '-1'; "),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_found(
    muster: Muster, trace: Path, tmp_path: Path, scheduler: str, pair: str, said: str
) -> None:
    flags = ("--cluster", "1x8gpu", "--out", tmp_path / "out", "--set", pair)
    refused = muster("simulate", trace, "--scheduler", scheduler, *flags)
    assert refused.status == 2
    assert said in refused.err


def test_of_two_settings_the_wrong_one_is_named(muster: Muster, trace: Path, tmp_path: Path) -> None:
    flags = ("--scheduler", "2d-las", "--set", "quantum_seconds=60", "--set", "thresholds=3,1")
    refused = muster("simulate", trace, "--cluster", "1x8gpu", "--out", tmp_path / "out", *flags)
    assert refused.status == 2
    assert "--set thresholds: found '3,1'" in refused.err
    assert "found '60'" not in refused.err
