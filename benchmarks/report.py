"""A report of 100,000 jobs in Chromium: size, time to usable, time of each interaction: `python -m benchmarks.report`.

A generated trace with tenants, users and models under three schedulers on 512 GPUs. An interaction counts until the
frame after it is drawn.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

COUNT, REPEATS, _SETTLED_MS = 100_000, 7, 500
SCHEDULERS = ("slurm-like", "fifo", "las")
_MODELS = ("resnet50", "gnmt", "bert-large", "vgg16", "")
_TIMED = """async (act) => {
    const began = performance.now();
    new Function("return " + act)()();
    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
    return performance.now() - began;
}"""
_CHOOSE = """() => {{ const select = document.querySelector('select[aria-label="{label}"]');
    select.selectedIndex = 1 + (select.selectedIndex + 1) % (select.options.length - 1);
    select.dispatchEvent(new Event("change")); }}"""
_POINT = """() => {{ const canvas = document.querySelector('figure[data-chart="{chart}"] canvas.live');
    const {{ left, top }} = canvas.getBoundingClientRect();
    const at = {{ clientX: left + 300 + 60 * Math.random(), clientY: top + 100 }};
    canvas.dispatchEvent(new PointerEvent("pointermove", at)); }}"""
_PRESS = """() => document.querySelector('figure[data-chart="{chart}"] canvas.live')
    .dispatchEvent(new KeyboardEvent("keydown", {{ key: "{key}" }}))"""
_TOP, _JOBS, _CURVES, _QUEUE, _NODES = (
    *("#explore", "#extremes"),
    *(f'figure[data-chart="{name}"]' for name in ("jct", "queue", "lanes-1")),
)
INTERACTIONS = {
    "filter by tenant": (_TOP, _CHOOSE.format(label="Tenant")),
    "filter by model": (_TOP, _CHOOSE.format(label="Model")),
    "filter by size, curves in sight": (_CURVES, _CHOOSE.format(label="Size")),
    "other pair of schedulers": (_JOBS, _CHOOSE.format(label="to")),
    "story of a job": (_JOBS, "() => document.querySelector('#extremes button').click()"),
    "point at the queue": (_QUEUE, _POINT.format(chart="queue")),
    "point at the nodes": (_NODES, _POINT.format(chart="lanes-1")),
    "zoom in, nodes in sight": (_NODES, _PRESS.format(chart="lanes-1", key="+")),
    "zoom out, curves in sight": (_QUEUE, _PRESS.format(chart="queue", key="-")),
}


def main() -> None:
    """Make the report, open it, measure and print."""
    table = Table(
        "what",
        "median",
        "processor time of the page",
        title=f"Report of {COUNT:,} jobs under {len(SCHEDULERS)} schedulers",
    )
    with tempfile.TemporaryDirectory() as folder:
        report = _report(Path(folder))
        table.add_row("report.html", f"{report.stat().st_size / 1e6:.2f} MB", "")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            waits, works = [], []
            for _ in range(REPEATS):
                page = browser.new_page(viewport={"width": 1360, "height": 850})
                work = _Work(page)
                page.goto(report.as_uri())
                page.locator("html[data-ready]").wait_for()
                waits.append(float(page.evaluate("document.documentElement.dataset.ready")))
                works.append(work.milliseconds())
                if len(waits) < REPEATS:
                    page.close()
            table.add_row("from opening to usable", *_medians(waits, works))
            for name, (chart, act) in INTERACTIONS.items():
                page.locator(chart).scroll_into_view_if_needed()
                page.wait_for_timeout(_SETTLED_MS)
                waits, works = [], []
                for _ in range(REPEATS):
                    work.milliseconds()
                    waits.append(_timed(page, act))
                    works.append(work.milliseconds())
                table.add_row(name, *_medians(waits, works))
                page.evaluate("document.getElementById('story').close()")
            browser.close()
    Console().print(table)


class _Work:
    """Processor time of the thread that draws the page; it does not depend on what else the machine does."""

    def __init__(self, page: Page) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.before = 0.0

    def milliseconds(self) -> float:
        """Since the last call."""
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        seconds = float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))
        passed, self.before = seconds - self.before, seconds
        return 1000 * passed


def _medians(waits: Sequence[float], works: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.median(waits):.0f} ms", f"{statistics.median(works):.0f} ms"


def _timed(page: Page, act: str) -> float:
    return float(page.evaluate(_TIMED, act))


def _report(folder: Path) -> Path:
    muster = str(Path(sys.executable).with_name("muster"))
    trace, out = folder / "trace.csv", folder / "out"
    generate = [
        muster,
        "generate",
        "mixed",
        "--jobs",
        str(COUNT),
        "--gpus",
        "512",
        "--load",
        "0.9",
        "--seed",
        "1",
    ]
    subprocess.run([*generate, "-o", str(trace)], check=True, capture_output=True)
    random = np.random.default_rng(1)
    jobs = pl.read_csv(trace)
    tenant = random.zipf(1.5, jobs.height) % 40
    jobs.with_columns(
        pl.Series("tenant", [f"tenant-{number}" for number in tenant]),
        pl.Series("user", [f"user-{number}" for number in tenant * 10 + random.integers(0, 10, jobs.height)]),
        pl.Series("model", random.choice(_MODELS, jobs.height)),
    ).write_csv(trace)
    compare = [muster, "compare", str(trace), "--cluster", "64x8gpu,96cpu,768gb", "--out", str(out)]
    flags = [flag for name in SCHEDULERS for flag in ("--scheduler", name)]
    subprocess.run([*compare, *flags], check=True, capture_output=True)
    return out / "report.html"


if __name__ == "__main__":
    main()
