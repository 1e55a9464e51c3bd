"""Metrics and dashboard before a real Prometheus server, which scrapes an API and is asked what Grafana asks."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from ..engines.bench import until
from ..serving import Serving

pytestmark = [
    pytest.mark.needs_prometheus,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no prometheus here"),
]

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana-dashboard.json"


@pytest.fixture
def prometheus(api: Serving, tmp_path: Path) -> Iterator[str]:
    """The address of a server that looks at the API ten times a second."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = tmp_path / "prometheus.yml"
    target = {"job_name": "muster", "static_configs": [{"targets": [f"127.0.0.1:{api.port}"]}]}
    often = {"scrape_interval": "100ms", "scrape_timeout": "100ms"}
    settings.write_text(json.dumps({"global": often, "scrape_configs": [target]}))  # JSON is YAML.
    log = tmp_path / "prometheus.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={settings}",
                f"--storage.tsdb.path={tmp_path / 'series'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: is_ready(url) or server.poll() is not None, "Prometheus is ready")
        assert server.poll() is None, log.read_text()
        yield url
    finally:
        server.terminate()
        server.wait()


def is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready") as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


def asked(url: str, expression: str) -> list[tuple[dict[str, str], float]]:
    """The series that an expression gives now."""
    with urlopen(f"{url}/api/v1/query?{urlencode({'query': expression})}") as answer:
        found: Any = json.load(answer)
    assert found["status"] == "success"
    return [(series["metric"], float(series["value"][1])) for series in found["data"]["result"]]


def test_every_panel_of_the_dashboard_shows_something(api: Serving, prometheus: str) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert expressions

    def all_show_a_figure() -> bool:
        api.status.decisions += 1  # A rate needs something that goes on.
        api.status.decision_seconds_sum += 0.25
        api.status.looked_at = time.monotonic()
        return all(
            any(isfinite(value) for _, value in asked(prometheus, expression)) for expression in expressions
        )

    until(all_show_a_figure, "every panel has a figure")
    assert asked(prometheus, "muster_ready * (1 - muster_degraded)")[0][1] == 1
    in_use = asked(prometheus, "1 - muster_free_gpus / muster_gpus")
    assert [value for _, value in in_use] == [0.0]
    a_decision = asked(
        prometheus, "rate(muster_decision_seconds_total[5m]) / rate(muster_decisions_total[5m])"
    )
    assert [value for _, value in a_decision] == [pytest.approx(0.25, rel=0.2)]


def test_its_own_checker_finds_nothing_to_complain_of(api: Serving) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=api.ask("GET", "/metrics").body,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
