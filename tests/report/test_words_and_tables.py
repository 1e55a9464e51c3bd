"""Formatted figures, and the table of the terminal."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from muster.formatting import (
    amount_of,
    common_unit,
    counted,
    duration,
    enumerated,
    in_unit,
    markdown_cell,
    natural_order,
    number,
    percent,
    ratio,
    short_names,
    unbroken,
)
from muster.report import summarise
from muster.report.figures import FIGURES, column
from muster.report.terminal import comparison_table
from muster.sweep.page import Table
from tests.report.hand_made import ORDERS, scheduled


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.25, "0.250 s"),
        (0.0148, "0.015 s"),
        (0.0001, "<0.001 s"),
        (59.4, "59.4 s"),
        (60, "1.00 min"),
        (3599, "60.0 min"),
        (78_900, "21.9 h"),
        (172_799, "48.0 h"),
        (172_800, "2.00 d"),
        (86_400 * 1234, "1,234 d"),
    ],
)
def test_durations(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "unit", "shown"),
    [
        ([2.52 * 86_400, 72_000, 67_680], "h", ["60.5", "20.0", "18.8"]),
        ([1750 * 86_400, 0, None], "d", ["1,750", "0", "–"]),
        ([4.23 * 3600, 1662, 1884], "h", ["4.23", "0.462", "0.523"]),
        ([15.4 * 86_400, 1800], "d", ["15.4", "0.021"]),
        ([15.4 * 86_400, 1500], "h", ["370", "0.417"]),
        ([15.4 * 86_400, 28], "h", ["370", "0.008"]),
        ([1750 * 86_400, 1], "d", ["1,750", "<0.001"]),
        ([0.0148, 0.3], "s", ["0.015", "0.300"]),
        ([0.0, float("nan")], "s", ["0", "–"]),
        ([], "s", []),
    ],
)
def test_times_that_are_compared_have_one_unit(
    seconds: list[float | None], unit: str, shown: list[str]
) -> None:
    common = common_unit(seconds)
    assert common.name == unit
    assert [in_unit(one, common) for one in seconds] == shown


def test_no_line_ends_before_a_unit() -> None:
    text = "from 1.08 h to 3 min (−95 %); 2 hours, 4 sites, 8 GPUs"
    assert unbroken(text) == "from 1.08\u00a0h to 3\u00a0min (−95\u00a0%); 2 hours, 4 sites, 8 GPUs"


def test_shares_ratios_and_numbers() -> None:
    assert percent(0.8434) == "84.3 %"
    assert percent(None) == "–"
    assert ratio(62.0, 100.0) == "0.62×"
    assert ratio(1.0, 0.0) == "–"
    assert ratio(None, 1.0) == "–"
    assert number(12_000) == "12,000"
    assert number(1.336) == "1.34"


def test_amounts_have_as_many_figures_as_mean_something() -> None:
    assert amount_of("memory_gb", 687.48) == "687"
    assert amount_of("memory_gb", 1_229_312.0) == "1,229,312"
    assert amount_of("cpus", 2.5) == "2.50"
    assert amount_of("gpus", 123_456.125) == "123,456.125"


def test_things_are_counted_as_people_say_them() -> None:
    assert [counted(count, "job") for count in (0, 1, 2, 12_000)] == [
        "0 jobs",
        "1 job",
        "2 jobs",
        "12,000 jobs",
    ]


def test_parts_of_a_sentence_are_put_together() -> None:
    assert [enumerated("abc"[:count]) for count in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


def test_columns_of_text_and_of_figures_are_aligned() -> None:
    rows = [("a", "up to 69 %", "83 % ± 21", "not reached"), ("b", "1.4×", "1.09 s", "reached")]
    assert Table("", ("Case", "Reported", "Muster", "Verdict"), rows).is_text == [False, False, False, True]


def test_names_stand_as_people_count() -> None:
    counted = ["", "7", "10", "vc", "vc1", "vc02", "vc2", "vc2b", "vc10", "vc10-3", "vc10-20", "w1"]
    assert sorted(sorted(counted), key=natural_order) == counted


@given(st.lists(st.text("ab+", min_size=1, max_size=8), min_size=1, max_size=6, unique=True))
def test_short_names_with_what_all_share_are_the_names(names: list[str]) -> None:
    short, common = short_names(names)
    assert [one + common for one in short] == names
    assert len(set(short)) == len(names)


def test_short_names_drop_what_says_nothing() -> None:
    assert short_names(["fifo+proportional+pack", "las+proportional+pack"]) == (
        ["fifo", "las"],
        "+proportional+pack",
    )
    assert short_names(["fifo+proportional+pack"]) == (["fifo+proportional+pack"], "")
    assert short_names(["dally", "las+pack"]) == (["dally", "las+pack"], "")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (14.898333333333333, "14.8983"),
        (2.0, "2"),
        (0.00001, "0"),
        (3, "3"),
        (True, "true"),
        (None, ""),
        ("a", "a"),
    ],
)
def test_cells_of_markdown_have_four_decimals(value: object, cell: str) -> None:
    assert markdown_cell(value) == cell


def printed(names: list[str], width: int = 80) -> str:
    summaries = [
        summarise(scheduled(order, jobs=40, name=name)) for order, name in zip(ORDERS, names, strict=False)
    ]
    out = StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="standard").print(
        comparison_table(summaries, width)
    )
    return out.getvalue()


def test_ten_long_names_fit_in_80_columns() -> None:
    names = [f"{order}-longer+proportional+x{index}" for index, order in enumerate(ORDERS)]
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed(names))
    assert max(map(len, plain.splitlines())) <= 80
    assert "…" not in plain
    for name in names:
        assert all(part in plain for part in name.split("+"))


def test_a_narrow_terminal_keeps_names_and_first_figures() -> None:
    names = ["fifo+proportional+pack", "sjf+requested+spread"]
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed(names, width=40))
    assert max(map(len, plain.splitlines())) <= 40
    assert "…" not in plain
    assert all(part in plain for name in names for part in name.split("+"))
    assert "mean" in plain
    assert "preemp-" not in plain
    assert "columns left out: the terminal has 40 columns" in " ".join(plain.split())


def test_a_name_is_broken_behind_a_plus_alone() -> None:
    names = ["multifactor+proportional+pack", "srtf-speed+requested+consolidate"]
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed(names))
    lines = re.findall(r"^ ([a-z][-+a-z]*)", plain, re.MULTILINE)[1:]
    assert "".join(lines) == "".join(names)
    assert [line for line in lines if not line.endswith("+")] == ["pack", "consolidate"]
    assert len(lines) > len(names)


def test_the_name_of_a_single_run_stands_whole_below() -> None:
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed(["multifactor+proportional+consolidate+easy"]))
    assert re.search(r"^ multifactor +\d", plain, re.MULTILINE)
    assert "in full: multifactor+proportional+consolidate+easy" in plain


def test_best_is_bold_and_the_first_has_no_ratio() -> None:
    text = printed(["fifo+proportional+pack", "sjf+proportional+pack"])
    table = text.partition(" shortens the ")[0]
    fifo, sjf, ratios = [line for line in table.splitlines() if re.search(r"\d$|\d %|×", line)]
    means = [summarise(scheduled(order, jobs=40))["jct_seconds"]["mean"] for order in ("fifo", "sjf")]
    assert means[1] < means[0]
    unit = common_unit(means)
    assert re.search(rf"JCT\x1b.*\n.* {unit.name}\x1b", table)
    assert re.search(rf"\x1b\[1m *{re.escape(in_unit(means[1], unit))}", sjf)
    assert not re.search(rf"\x1b\[1m *{re.escape(in_unit(means[0], unit))}", fifo)
    assert "×" not in fifo
    assert f"{means[1] / means[0]:.2f}×" in ratios


def test_ratios_and_sentences_are_not_to_what_a_log_records() -> None:
    fifo, sjf = [
        summarise(scheduled(order, jobs=40, name=f"{order}+proportional+pack")) for order in ("fifo", "sjf")
    ]
    log = {**fifo, "scheduler": "recorded", "jct_seconds": {**fifo["jct_seconds"], "mean": 1e6}}
    out = StringIO()
    Console(file=out, width=80).print(comparison_table([fifo, sjf], history={"recorded": log}))
    rows = [line for line in out.getvalue().splitlines() if re.search(r"\d$|\d %|×", line.strip())]
    assert [line.split()[0] for line in rows[:3:2]] == ["recorded", "fifo"]
    assert rows[1].split()[0] == ratio(1e6, fifo["jct_seconds"]["mean"])
    assert "ratios to fifo" in out.getvalue()
    assert f"from {duration(fifo['jct_seconds']['mean'])} to" in re.sub(r"\s+", " ", out.getvalue())


def test_no_time_is_best_where_runs_end_jobs_undone() -> None:
    """Only the use of the GPUs, which counts all jobs, is better in one of them."""
    summaries = [summarise(scheduled(order, jobs=40)) for order in ("fifo", "sjf")]
    summaries[0]["utilization"]["gpu"] = 0.5
    killed = [summaries[0], {**summaries[1], "timed_out": 1}]
    best = {figure.path for figure in FIGURES if any(cell.best for cell in column(figure, killed).cells)}
    assert "utilization.gpu" in best
    assert best <= {"utilization.gpu", "fragmentation", "restart_loss"}


def test_a_single_run_has_nothing_to_be_best_of() -> None:
    rows = printed(["fifo+proportional+pack"]).split("─")[-1]
    assert "\x1b[1m" not in rows
