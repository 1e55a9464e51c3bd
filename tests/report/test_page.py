"""The page: everything in it, nothing from outside, the same bytes, every text of a user escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

from muster.palette import DARK, LIGHT
from muster.problems import InputError
from muster.report.notes import assumptions
from muster.report.page import write_report
from muster.runtime.records import Record
from tests.report.hand_made import run_record, scheduled, tables, write, write_comparison

EVIL = "<script>alert('x')</script>&\"'"
VOID = {"meta", "br", "wbr", "link", "img"}


class Page(HTMLParser):
    """What stands in a page: tags in their nesting, ids, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = [scheduled(order, jobs=60, tenants=["vision", "speech"]) for order in ("fifo", "las")]
    return write_comparison(runs, tmp_path_factory.mktemp("comparison"))


@pytest.fixture(scope="module")
def page(comparison: Path) -> str:
    return write_report(comparison).read_text(encoding="utf-8")


def test_the_page_is_whole_and_needs_nothing_else(page: str) -> None:
    parsed = Page(page)
    assert parsed.open == []
    assert "://" not in page
    assert not {"link", "img", "iframe"} & set(parsed.tags)
    assert parsed.tags["script"] == 2  # the block of data and the program, both within the page
    assert not {"src", "href", "xlink:href"} & {name for name, _ in parsed.attributes}
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}


def test_a_policy_allows_only_what_is_in_the_page(page: str) -> None:
    policy = next(value for name, value in Page(page).attributes if value.startswith("default-src"))
    for element, name in (("style", "style"), ('script type="module"', "script")):
        (content,) = re.findall(f"<{element}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert not [value for name, value in Page(page).attributes if name == "style" or name.startswith("on")]


def test_ids_are_unique_and_every_reference_meets_one(page: str) -> None:
    ids = Counter(value for name, value in Page(page).attributes if name == "id")
    assert max(ids.values(), default=1) == 1
    assert set(re.findall(r"url\(#([^)]+)\)", page.partition("<script")[0])) <= set(ids)


def test_charts_take_their_colours_from_the_page(page: str) -> None:
    """A colour left as a number would not follow the reader's dark setting."""
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.S))
    assert not re.findall(r'(?:fill|stroke)="#\w+"', drawings)
    roles = set(re.findall(r"var\(--([\w-]+)\)", page))
    assert roles <= set(LIGHT)
    assert set(LIGHT) == set(DARK)
    for role in roles:
        assert page.count(f"--{role}: ") == 3  # light, dark and printed


def test_the_finding_comes_first_then_bars_then_the_table(page: str) -> None:
    assert page.index('class="finding"') < page.index("<svg") < page.index("<table")
    assert page.count("<svg", 0, page.index("<table")) == 4  # two charts, wide and for a phone


def test_the_table_says_what_is_best(page: str) -> None:
    text = Page(page).text
    for word in (
        "Completion time",
        "Wait",
        "Makespan",
        "fifo",
        "las",
        "+proportional+pack",
        "oracle",
        "exact",
    ):
        assert word in text
    assert re.search(r"<b>[\d.]+</b><small>0\.\d\d×</small>", page)


def test_the_times_of_a_table_have_their_unit_in_the_head(page: str) -> None:
    tables = re.findall(r"<table>.*?</table>", page, re.DOTALL)
    cells = [
        re.sub("<[^>]+>.*", "", cell) for table in tables for cell in re.findall(r"<td>(.+?)</td>", table)
    ]
    assert [cell for cell in cells if re.search(r"\d\s*(?:d|h|min|s)$", cell)] == []
    heads = [
        head for table in tables for head in re.findall(r"<t[hd][^>]*>([^<]+),\s(?:d|h|min|s)</t[hd]>", table)
    ]
    for head in ("mean", "Mean wait", "99th percentile of wait", "Completion time", "las"):
        assert head in heads


def test_no_line_of_the_finding_ends_before_a_unit(page: str) -> None:
    (finding,) = re.findall(r'<p class="finding">(.*?)</p>', page)
    assert re.search(r"\d\u00a0(?:h|min)", finding)
    assert not re.search(r"\d (?:d|h|min|s|%)\b", finding)


def test_charts_lie_beside_the_page(comparison: Path, page: str) -> None:
    names = {path.name for path in (comparison / "charts").iterdir()}
    charts = [
        "mean-wait",
        "mean-jct",
        "jct",
        "wait",
        "gpu-use",
        "queue",
        "jct-by-size",
        "wait-by-tenant",
        "nodes-1",
        "nodes-2",
    ]
    assert names == {f"{chart}.{kind}" for chart in charts for kind in ("svg", "png")}
    for chart in charts:
        root = ElementTree.parse(comparison / "charts" / f"{chart}.svg").getroot()
        assert root.tag.endswith("svg")
        assert (comparison / "charts" / f"{chart}.png").read_bytes().startswith(b"\x89PNG")


def test_only_the_formats_asked_for_are_written(tmp_path: Path) -> None:
    record = scheduled("las", jobs=20, tenants=["a", "b"])
    charts = write_report(write(record, tmp_path), ["csv"])
    assert charts == tmp_path / "charts"
    assert not (tmp_path / "report.html").exists()
    assert {path.suffix for path in charts.iterdir()} == {".csv"}
    held = pl.read_csv(charts / "nodes.csv")
    assert held["job_id"].to_list() == record.allocations["job_id"].to_list()
    means = pl.read_csv(charts / "wait-by-tenant.csv")
    expected = record.jobs.group_by("tenant").agg(pl.col("wait_seconds").mean()).sort("tenant")
    assert means["group"].to_list() == expected["tenant"].to_list()
    assert means["mean_seconds"].to_list() == pytest.approx(expected["wait_seconds"].to_list())
    assert pl.read_csv(charts / "queue.csv").columns == ["scheduler", "from_seconds", "jobs_waiting"]
    assert write_report(tmp_path, ["html"]) == tmp_path / "report.html"
    assert {path.suffix for path in charts.iterdir()} == {".csv"}


def test_the_same_records_give_the_same_bytes(comparison: Path, page: str) -> None:
    before = {path.name: path.read_bytes() for path in (comparison / "charts").iterdir()}
    assert write_report(comparison).read_text(encoding="utf-8") == page
    assert {path.name: path.read_bytes() for path in (comparison / "charts").iterdir()} == before


def hostile() -> Record:
    """A run whose every name tries to be HTML."""
    run = run_record(1, 4, name=f"fifo+{EVIL}")
    run["trace"]["source"] = f"{EVIL}.csv"
    run["trace"]["notes"] = [f"dropped {EVIL}"]
    run["cluster"]["name"] = EVIL
    run["cluster"]["nodes"][0]["name"] = EVIL
    run["settings"][EVIL] = EVIL
    run["scheduler"]["settings"] = {EVIL: EVIL}
    run["rules"]["queue"] = EVIL
    run["knowledge"] = EVIL
    jobs: list[dict[str, Any]] = [
        {"job_id": f"{EVIL}{index}", "tenant": f"{EVIL}{index}", "model": EVIL, "submit_seconds": 0.0,
         "start_seconds": 5.0, "finish_seconds": 60.0, "wait_seconds": 5.0, "ideal_seconds": 55.0}
        for index in range(2)
    ]  # fmt: skip
    allocations = [
        {
            "job_id": f"{EVIL}{index}",
            "node": EVIL,
            "gpu_ids": [index],
            "from_seconds": 5.0,
            "to_seconds": 60.0,
        }
        for index in range(2)
    ]
    reasons = [
        {"job_id": f"{EVIL}0", "reason": EVIL, "parameters": "{}", "from_seconds": 0.0, "to_seconds": 5.0}
    ]
    return tables(jobs, allocations, reasons=reasons, run=run)


def test_texts_of_users_are_escaped_everywhere(tmp_path: Path) -> None:
    page = write_report(write(hostile(), tmp_path)).read_text(encoding="utf-8")
    parsed = Page(page)
    assert parsed.open == []
    assert parsed.tags["script"] == 2
    assert parsed.text.count("<script>alert(") > 10
    for chart in (tmp_path / "charts").glob("*.svg"):
        assert not [node for node in ElementTree.parse(chart).iter() if node.tag.endswith("script")]


def test_jobs_left_out_and_cleaned_rows_are_reported(tmp_path: Path) -> None:
    record = scheduled("fifo", jobs=40)
    late = pl.col("job_id").is_in(["job-38", "job-39"])
    jobs = record.jobs.with_columns(
        pl.when(~late).then("finish_seconds").alias("finish_seconds"),
        pl.when(~late).then("jct_seconds").alias("jct_seconds"),
        pl.when(late).then(pl.lit("unfinished")).otherwise("outcome").alias("outcome"),
        (pl.col("job_id") != "job-0").alias("measured"),
    )
    run = {**record.run, "trace": {**record.run["trace"], "notes": ["3 rows without an end were dropped"]}}
    cut = replace(record, jobs=jobs, run=run)
    text = Page(write_report(write(cut, tmp_path)).read_text(encoding="utf-8")).text
    assert "2 of 39 jobs did not finish" in text
    assert "the 39 measured of 40 jobs" in text
    assert "3 rows without an end were dropped" in text


def test_what_the_answer_rests_on_stands_above_the_charts(page: str) -> None:
    first_screen = Page(page[: page.index("<svg")] + "</div></figure></div></main></body></html>").text
    assert "none, preemptions are free" in first_screen
    assert "exactly how long each job runs" in first_screen
    assert "every job names its model" in first_screen


def test_jobs_of_unknown_sensitivity_are_counted() -> None:
    record = scheduled("fifo", jobs=4)
    nameless = pl.when(pl.col("job_id") != "job-0").then("model").alias("model")
    run = {**record.run, "trace": {"notes": ["no network model for gnmt: taken as insensitive"]}}
    stated = dict(assumptions(["fifo"], [run], record.jobs.with_columns(nameless)))
    assert stated["Sensitivity to CPUs, memory and network"] == (
        "unknown for 1 of 4 jobs: no model is named; no network model for gnmt: taken as insensitive"
    )


def test_classes_of_knowledge_are_marked(tmp_path: Path) -> None:
    one, other = scheduled("fifo", jobs=20), scheduled("sjf", jobs=20)
    blind = replace(one, run={**one.run, "knowledge": "none"})
    text = Page(write_report(write_comparison([blind, other], tmp_path)).read_text(encoding="utf-8")).text
    assert "compare within a class" in text


def test_a_run_in_which_nothing_happened_has_a_page(tmp_path: Path) -> None:
    page = write_report(write(tables(jobs=[]), tmp_path)).read_text(encoding="utf-8")
    assert Page(page).open == []


def test_a_run_whose_jobs_hold_no_gpus_has_a_page(tmp_path: Path) -> None:
    """It has no bars of nodes: a lane is a GPU."""
    job = {"job_id": "a", "gpus": 0.0, "submit_seconds": 0.0, "finish_seconds": 9.0}
    row = {
        "job_id": "a",
        "node": "node-0",
        "gpu_ids": [],
        "gpus": 0.0,
        "from_seconds": 0.0,
        "to_seconds": 9.0,
    }
    write(tables([job], [row]), tmp_path)
    assert "Nodes over time, fifo" not in write_report(tmp_path).read_text()


def test_a_comparison_with_a_run_without_jobs_has_a_page(tmp_path: Path) -> None:
    compared = write_comparison([scheduled("las", jobs=5), tables(jobs=[])], tmp_path)
    assert Page(write_report(compared, ["html"]).read_text(encoding="utf-8")).open == []


def test_all_that_a_comparison_lacks_is_reported_at_once(tmp_path: Path) -> None:
    folder = write_comparison([scheduled("fifo", jobs=5), scheduled("las", jobs=5)], tmp_path)
    (folder / "fifo+proportional+pack" / "jobs.parquet").unlink()
    (folder / "las+proportional+pack" / "run.json").unlink()
    with pytest.raises(InputError) as bad:
        write_report(folder)
    assert [Path(problem.where).name for problem in bad.value.problems] == ["jobs.parquet", "run.json"]
    assert not (folder / "report.html").exists()
