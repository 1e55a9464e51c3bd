"""What is drawn: bars of the nodes, curves, and colours that differ enough."""

from __future__ import annotations

import json
import re
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.palette import DARK, LIGHT
from muster.report.charts import charts_of
from muster.report.curves import LOG_TICKS, distribution_chart, queue_chart
from muster.report.drawing import CHARACTER, HALF, PHONE, ChartSpace, lines, text_width, time_unit
from muster.report.embedded import run_tables
from muster.report.gantt import bars, stretches
from muster.report.means import means_chart
from muster.report.node_use import BINS, node_use
from muster.report.page import write_report
from muster.report.render import svg_of
from muster.report.series import GANTT_ROWS, GroupMean, chart_series, size_name
from tests.report.hand_made import ORDERS, run_record, scheduled, tables, write


@given(st.sets(st.integers(0, 15)))
def test_stretches_hold_exactly_the_gpus(gpus: set[int]) -> None:
    joined = stretches(sorted(gpus))
    assert {gpu for low, high in joined for gpu in range(low, high)} == gpus
    assert all(first[1] < second[0] for first, second in pairwise(joined))


@pytest.mark.parametrize("order", ["fifo", "las"])
def test_bars_cover_the_gpu_seconds_and_never_each_other(order: str) -> None:
    record = scheduled(order, jobs=40)
    run = chart_series(record, order)
    assert run.gantt is not None
    drawn = bars(run.gantt, run.nodes)
    area = sum((bar.end - bar.begin) * (bar.high - bar.low) for bar in drawn)
    assert area == pytest.approx(record.jobs["attained_gpu_seconds"].sum())
    for one, other in combinations(drawn, 2):
        apart_in_time = one.end <= other.begin or other.end <= one.begin
        assert apart_in_time or one.high <= other.low or other.high <= one.low


def test_shades_of_nodes_hold_the_gpu_seconds() -> None:
    """In rows of one node, and in rows of several where there are many."""
    record = scheduled("las", jobs=40)
    labels, edges, shares = node_use(run_tables(record))
    gpus = record.nodes()["gpus"].to_numpy()[:, None]
    assert labels == record.nodes()["node"].to_list()
    area = float((shares * gpus * np.diff(edges)).sum())
    assert area == pytest.approx(record.jobs["attained_gpu_seconds"].sum())
    row = {
        "job_id": "0",
        "node": "node-129",
        "gpu_ids": [0],
        "gpus": 1.0,
        "from_seconds": 0.0,
        "to_seconds": 8.0,
    }
    many = tables(
        [{"job_id": "0", "submit_seconds": 0.0, "finish_seconds": 16.0}], [row], run=run_record(130, 4)
    )
    labels, _, shares = node_use(run_tables(many))
    assert (len(labels), labels[0], labels[-1]) == (44, "node-0 to node-2", "node-129")
    assert shares[-1].tolist() == [0.25] * (BINS // 2) + [0.0] * (BINS // 2)
    assert not shares[:-1].any()


def test_a_run_of_many_allocations_has_its_nodes_as_files(tmp_path: Path) -> None:
    rows = [
        {
            "job_id": "0",
            "node": "node-0",
            "gpu_ids": [0],
            "gpus": 1.0,
            "from_seconds": at,
            "to_seconds": at + 1.0,
        }
        for at in map(float, range(GANTT_ROWS + 1))
    ]
    job = {"job_id": "0", "submit_seconds": 0.0, "finish_seconds": float(len(rows))}
    write(tables([job], rows), tmp_path)
    write_report(tmp_path, ("svg", "csv"))
    kept = pl.read_csv(tmp_path / "charts" / "nodes.csv")
    assert kept.columns == ["nodes", "from_seconds", "to_seconds", "share_of_gpus"]
    assert kept.filter(pl.col("nodes") == "node-0")["share_of_gpus"].unique().len() == 1
    assert "GPUs held" in (tmp_path / "charts" / "nodes.svg").read_text()


def test_sharers_of_a_gpu_lie_beside_each_other_in_its_lane() -> None:
    jobs = [{"job_id": name, "gpus": 0.5, "submit_seconds": 0.0, "finish_seconds": 10.0} for name in "abc"]
    allocations = [
        {
            "job_id": name,
            "node": "node-0",
            "gpu_ids": [2],
            "gpus": 0.5,
            "from_seconds": begin,
            "to_seconds": end,
        }
        for name, begin, end in (("a", 0.0, 10.0), ("b", 0.0, 5.0), ("c", 5.0, 10.0))
    ]
    run = chart_series(tables(jobs, allocations), "shared")
    assert run.gantt is not None
    drawn = {bar.job_id: (bar.low, bar.high) for bar in bars(run.gantt, run.nodes)}
    assert drawn == {"a": (2.0, 2.5), "b": (2.5, 3.0), "c": (2.5, 3.0)}


def test_a_large_run_is_not_drawn_bar_by_bar() -> None:
    row = {"job_id": "a", "node": "node-0", "from_seconds": 0.0, "to_seconds": 1.0}
    job = {"job_id": "a", "submit_seconds": 0.0, "finish_seconds": 1.0}
    assert chart_series(tables([job], [row] * GANTT_ROWS), "few").gantt is not None
    assert chart_series(tables([job], [row] * (GANTT_ROWS + 1)), "many").gantt is None
    assert chart_series(tables([job], [row], run=run_record(65, 4)), "wide").gantt is None


def test_nodes_of_several_runs_have_one_axis_of_time() -> None:
    runs = [chart_series(scheduled(order, jobs=40), order) for order in ("fifo", "las")]
    ends = [
        bar["to_seconds"] for run in runs if run.gantt is not None for bar in run.gantt.iter_rows(named=True)
    ]
    drawn = [chart.spec(chart.wide) for chart in charts_of(runs) if chart.detail]
    domains = [spec["layer"][0]["encoding"]["x"]["scale"]["domain"] for spec in drawn]
    assert len(domains) == 2
    assert domains[0] == domains[1] == [0, pytest.approx(max(ends) / time_unit(max(ends))[0])]


def test_a_queue_that_is_always_empty_lies_at_the_bottom() -> None:
    job = {"job_id": "a", "submit_seconds": 0.0, "finish_seconds": 1.0}
    row = {"job_id": "a", "node": "node-0", "from_seconds": 0.0, "to_seconds": 1.0}
    chart = queue_chart([chart_series(tables([job], [row]), "idle")])
    assert chart.spec(chart.wide)["encoding"]["y"]["scale"]["domain"] == [0, 1]


@pytest.mark.parametrize(
    ("gpus", "name"),
    [
        (0, "no GPU"),
        (0.5, "part of a GPU"),
        (1, "1 GPU"),
        (2, "2 GPUs"),
        (3, "3–4 GPUs"),
        (8, "5–8 GPUs"),
        (65, "over 64 GPUs"),
    ],
)
def test_job_sizes(gpus: float, name: str) -> None:
    assert size_name(gpus) == name


@pytest.mark.parametrize("order", ORDERS)
def test_means_by_size_add_up_to_the_mean(order: str) -> None:
    record = scheduled(order)
    means = chart_series(record, order).jct_by_size
    total = sum(mean.jobs * mean.mean_seconds for mean in means)
    assert total == pytest.approx(record.jobs["jct_seconds"].sum())


def test_long_distributions_keep_their_ends_and_quantiles() -> None:
    random = np.random.default_rng(0)
    waits = random.lognormal(6, 2, 20_000)
    jobs = pl.DataFrame({"finish_seconds": waits + 1, "wait_seconds": waits}).with_row_index("job_id")
    rows = [
        {**job, "job_id": str(job["job_id"]), "submit_seconds": 0.0, "ideal_seconds": 1.0}
        for job in jobs.iter_rows(named=True)
    ]
    curve = chart_series(tables(rows), "long").wait
    assert (curve[0], curve[-1]) == (waits.min(), waits.max())
    assert np.median(curve) == pytest.approx(np.median(waits), rel=0.02)


def test_waits_of_nothing_stand_at_the_left_edge() -> None:
    chart = distribution_chart("wait", "Waiting time", "", [("a", np.array([0.0, 0.0, 90.0, 700.0]))])
    spec = chart.spec(PHONE)
    rows = next(iter(spec["datasets"].values())) if "datasets" in spec else spec["data"]["values"]
    assert min(row["seconds"] for row in rows) == 60
    assert [row["share"] for row in rows if row["seconds"] == 60] == [0.0, 0.25, 0.5]
    assert json.dumps("≤ 1 min") in spec["encoding"]["x"]["axis"]["labelExpr"]


def channels(colour: str) -> np.ndarray:
    """Linear red, green and blue of `#rrggbb` (sRGB)."""
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(linear: np.ndarray) -> np.ndarray:
    """CIELAB under D65."""
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = matrix @ linear / np.array([0.9505, 1.0, 1.089])
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


# Full colour blindness of each kind (Machado, Oliveira and Fernandes 2009), on linear channels.
VISIONS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_colours_of_schedulers_differ_to_every_eye(theme: dict[str, str], vision: str) -> None:
    colours = [channels(colour) for role, colour in theme.items() if role.startswith("series")]
    seen = [lab(np.clip(VISIONS[vision] @ colour, 0, 1)) for colour in colours]
    # A difference of 2.3 is just noticeable; lines need far more.
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 12


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_and_texts_stand_out_from_the_page(theme: dict[str, str]) -> None:
    """WCAG 2.1: 3 to 1 for graphics, 4.5 to 1 for text."""
    luminance = {role: channels(colour) @ [0.2126, 0.7152, 0.0722] for role, colour in theme.items()}
    for role, value in luminance.items():
        low, high = sorted((value, luminance["surface"]))
        contrast = (high + 0.05) / (low + 0.05)
        if role.startswith("series"):
            assert contrast >= 3
        elif role in ("ink", "quiet"):
            assert contrast >= 4.5


def test_names_on_a_logarithmic_axis_are_their_durations() -> None:
    units = {"s": 1, "min": 60, "h": 3600, "day": 86_400, "days": 86_400}
    names = {name: name.split() for name in LOG_TICKS.values()}
    assert {name: int(count) * units[unit] for name, (count, unit) in names.items()} == {
        name: seconds for seconds, name in LOG_TICKS.items()
    }


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("room", [HALF, PHONE], ids=["half", "phone"])
def test_long_names_of_bars_are_written_in_full(room: ChartSpace, several: bool) -> None:
    names = ["srtf+proportional+consolidate+easy+" + "x" * 60, "fifo"]
    groups = ["a-tenant-whose-name-is-as-long-as-that-of-its-whole-department", "b"]
    means = [GroupMean(group, 3, 60.0) for group in groups]
    runs = [(name, means) for name in names[: 2 if several else 1]]
    svg = svg_of(means_chart("means", "", "", runs, groups).spec(room), "c")
    texts = "".join(re.findall(r">([^<]+)<", svg))
    assert "…" not in texts
    for name in (*(names if several else ()), *groups):
        assert name in texts


def test_no_label_is_measured_narrower_than_in_a_wide_font() -> None:
    """DejaVu Sans at 12 px, as a browser draws it: most systems without Arial have it."""
    measured = {"las+proportional+pack": 138.7, "sjf+requested+consolidate": 163.4, "WWW MMM": 70.4}
    for text, width in measured.items():
        assert width <= text_width(text) <= 1.1 * width


@given(st.text(alphabet="ab+- _", max_size=60), st.floats(1, 400))
def test_lines_of_a_name_are_the_name(name: str, width: float) -> None:
    broken = lines(name, width)
    assert "".join(broken) == name
    assert all(len(line) <= max(8, width / CHARACTER) for line in broken)
