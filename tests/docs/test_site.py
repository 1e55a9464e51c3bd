"""The site builds without warnings and its generated pages have what the code has."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.cli.app import COMMANDS
from muster.report.comparison import COLUMNS
from muster.runtime.records import TABLES
from muster.schedulers.reasons import REASONS
from muster.schedulers.registry import parts, presets

ROOT = Path(__file__).parents[2]


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site of a folder that has mkdocs.yml."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text_of(page: Path) -> str:
    """The text of a page without its tags."""
    return re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")).replace("&gt;", ">").replace("&amp;", "&")


def test_every_command_has_a_section(site: Path) -> None:
    page = text_of(site / "reference" / "commands.html")
    assert [name for name in COMMANDS if not re.search(rf"^muster {name}\b", page, re.MULTILINE)] == []
    assert "--release-seconds-per-gpu" in page, "options of --help-all are listed"


def test_every_part_setting_and_preset_is_listed(site: Path) -> None:
    page = text_of(site / "reference" / "schedulers.html")
    names = {part.name for part in parts()} | {setting.name for part in parts() for setting in part.settings}
    assert sorted(name for name in names | {preset.name for preset in presets()} if name not in page) == []


def test_every_column_of_the_record_is_described(site: Path) -> None:
    page = (site / "reference" / "record.html").read_text(encoding="utf-8")
    rows = dict(re.findall(r"<tr>\s*<td><code>(\w+)</code></td>(.*?)</tr>", page, re.DOTALL))
    assert rows.keys() == {name for columns in TABLES.values() for name in columns} | set(REASONS)
    assert [name for name, cells in rows.items() if not re.search(r"<td>[^<]{3,}.*</td>\s*$", cells)] == []


def test_every_column_of_a_comparison_is_described(site: Path) -> None:
    page = (site / "reference" / "results.html").read_text(encoding="utf-8")
    rows = dict(re.findall(r"<tr>\s*<td><code>(\w+)</code></td>(.*?)</tr>", page, re.DOTALL))
    assert {column.name for column in COLUMNS} <= rows.keys()


def test_every_path_of_the_api_has_a_section(site: Path) -> None:
    page = text_of(site / "reference" / "api.html")
    for path in ("POST /v1/jobs:batch", "GET /v1/jobs/{job_id}/why", "GET /healthz"):
        assert path in page
    assert "own_memory_gb" in page, "fields of a job request are listed"


def test_every_metric_of_the_dashboard_is_explained(site: Path) -> None:
    page = text_of(site / "reference" / "metrics.html")
    dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
    used = set(re.findall(r"muster_\w+", json.dumps(dashboard["panels"])))
    assert len(used) > 5
    assert sorted(name for name in used if name not in page) == []


def test_a_data_file_is_a_table_for_each_of_its_groups(site: Path) -> None:
    page = (site / "results" / "reproduce-dally.html").read_text(encoding="utf-8")
    with (ROOT / "docs/results/data/dally-policies.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    groups = dict.fromkeys(row[0] for row in rows)
    after = page.partition('id="every-policy"')[2]
    assert after.count("<table>") == len(groups) == 8
    assert re.findall(r"<strong>(.*?)</strong>", after)[: len(groups)] == list(groups)
    assert after.count('<td style="text-align: right;">') == sum(len(row) - 2 for row in rows)


def test_the_contents_name_every_page_of_the_site() -> None:
    """Pages that are generated have no file to link to; their titles stand there."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    titles = {
        page: title.strip('"') for title, page in re.findall(r"^ +- (.+): (\S+\.md)$", nav, re.MULTILINE)
    }
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    contents = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", contents))
    assert titles.keys() > pages
    assert sorted(pages - linked - {"index.md"}) == []
    assert [page for page in titles.keys() - pages if titles[page].lower() not in contents.lower()] == []


def planted(folder: Path, text: str) -> str:
    """What the build of a site of one page prints; the build has to fail."""
    pytest.importorskip("mkdocs")
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(f"# Muster\n\n{text}\n")
    own = {"nav": "[index.md]", "hooks": "[]", "extra": "{polyfills: []}", "docs_dir": "docs"}
    lines = [f"{name}: {value}" for name, value in own.items()]
    (folder / "mkdocs.yml").write_text("\n".join([f"INHERIT: {ROOT / 'mkdocs.yml'}", *lines]) + "\n")
    done = build(folder, folder / "site")
    assert done.returncode != 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_link_to_nowhere_fails_the_build(tmp_path: Path) -> None:
    assert "'gone.md'" in planted(tmp_path, "[gone](gone.md)")


def test_an_anchor_that_is_missing_fails_the_build(tmp_path: Path) -> None:
    assert "#no-such" in planted(tmp_path, "[no such section](#no-such)")


@pytest.mark.parametrize("tag", ['<script src="https://x.org/x.js">', "<link rel=icon href=//x.org/i.png>"])
def test_a_tag_that_loads_from_another_host_is_refused(tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exceptions = pytest.importorskip("mkdocs.exceptions")
    monkeypatch.syspath_prepend(ROOT / "docs" / "hooks")
    pages = importlib.import_module("pages")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    linked = '<a href="https://x.org">x</a><script src="assets/x.js">'
    assert pages.on_post_page(linked, page) == linked
    with pytest.raises(exceptions.PluginError, match=r"index.md: found .*x\.org/"):
        pages.on_post_page(linked + tag, page)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md"), key=str), ids=lambda page: page.stem)
def test_a_page_names_only_files_that_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:muster|tests|benchmarks|examples|docs|experiments)/[\w./-]+)`", page.read_text()
    )
    assert [name for name in named if not (ROOT / name).exists()] == []
