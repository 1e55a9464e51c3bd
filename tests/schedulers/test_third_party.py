"""Schedulers from outside: the documented example, a module, an entry point; and what is refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.problems import InputError
from muster.schedulers import registry
from muster.schedulers.presets import known_presets
from muster.schedulers.registry import build
from muster.simulation import Options, rules_named
from tests.building import cluster_of, column, job, jobs_of, run

DOC = Path(__file__).parents[2] / "docs" / "how-to" / "writing-a-policy.md"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The first Python block of the documentation, as a file."""
    code = re.search(r"```python[^\n]*\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    path = tmp_path / "smallest.py"
    path.write_text(code.group(1), encoding="utf-8")
    return path


def test_the_documented_example_runs_as_it_says(example: Path) -> None:
    trace = jobs_of(job(0, 100, gpus=4), job(10, 100, gpus=2), job(10, 100, gpus=1))
    result = run(trace, cluster_of(4), f"{example}:SmallestGang")
    assert result.record.scheduler == "smallest+proportional+pack"
    assert column(result, "start_seconds") == [0, 10, 10]
    assert column(result, "finish_seconds") == pytest.approx([200, 110, 110])
    assert column(result, "preemptions") == [1, 0, 0]


def test_the_documented_whole_scheduler_runs(tmp_path: Path) -> None:
    code = re.findall(r"```python[^\n]*\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)[-1]
    (tmp_path / "first.py").write_text(code, encoding="utf-8")
    trace = jobs_of(job(0, 100, gpus=2), job(10, 100, gpus=2), job(10, 100, gpus=1))
    result = run(trace, cluster_of(2, 2), f"{tmp_path / 'first.py'}:FirstNode")
    assert column(result, "start_seconds") == [0, 10, 100]


def test_it_combines_with_shipped_parts(example: Path) -> None:
    scheduler = build(f"{example}:SmallestGang+requested+spread")
    assert scheduler.name == "smallest+requested+spread"


def _in_file(folder: Path, example: Path, honours: str) -> str:
    """The documented order with a statement of what it honours; the name of its scheduler."""
    code = example.read_text(encoding="utf-8").replace(
        "    static_priority", f"    honours = {honours}\n    static_priority"
    )
    (folder / "stated.py").write_text(code, encoding="utf-8")
    return f"{folder / 'stated.py'}:SmallestGang"


def test_what_a_part_states_that_it_honours_counts(example: Path, tmp_path: Path) -> None:
    """A part that states nothing may go by anything; one that does ignores the rest."""
    trace = jobs_of(job(0, 9, priority=2.0, deadline_seconds=50.0), job(0, 9, gpus=2, nodes=2))
    notes = {
        name: [
            word
            for note in run(trace, cluster_of(2, 2), name).record.run["trace"]["notes"]
            for word in ("priority", "deadline_seconds", "nodes")
            if f"this scheduler ignores {word}, which 1 job of 2 state" in note
        ]
        for name in (
            f"{example}:SmallestGang",
            _in_file(tmp_path, example, 'frozenset({"priority", "nodes"})'),
        )
    }
    assert list(notes.values()) == [["nodes"], ["deadline_seconds"]]


@pytest.mark.parametrize("stated", ['"priority"', '{"priority", "deadlines"}', "7", "[[]]"])
def test_what_no_scheduler_can_honour_is_refused(example: Path, tmp_path: Path, stated: str) -> None:
    name = _in_file(tmp_path, example, stated)
    with pytest.raises(
        InputError, match=r"SmallestGang: honours: found .*; allowed: a set of 'batch', 'dead"
    ):
        build(name)


def test_a_file_may_postpone_its_annotations(tmp_path: Path) -> None:
    """Then a dataclass looks the names of its fields' types up in its module."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from muster.schedulers.queue_order.fifo import Fifo\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Fifo):\n"
        "    name: ClassVar[str] = 'mine'\n"
        "    weight: float = 1.0\n"
    )
    assert build(f"{file}:Mine+proportional+pack", {"weight": "2"}).name == "mine+proportional+pack"


ENTRY_POINTS = """\
[muster.schedulers]
smallest = smallest:SmallestGang
[muster.presets]
mine = plans:PRESETS
[muster.rules]
generous = plans:GENEROUS
wrong = plans:PRESETS
"""
PLANS = """\
from muster.schedulers.presets import Preset
from muster.simulation.rules import Rules

PRESETS = (Preset("mine", "smallest+requested+spread", "Small gangs first, spread."),)
GENEROUS = Rules("generous", "Interruptions cost nothing.", restart_cost_seconds=0.0)
"""


@pytest.fixture
def installed(example: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with a part, presets and rules."""
    metadata = example.parent / "smallest_scheduler-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: smallest-scheduler\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (example.parent / "plans.py").write_text(PLANS)
    monkeypatch.syspath_prepend(str(example.parent))
    cached = (registry._entry_points, registry._installed_kind, known_presets)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()
    for module in ("smallest", "plans"):
        sys.modules.pop(module, None)


def test_an_installed_part_is_found_by_its_entry_point(installed: None) -> None:
    assert build("smallest").name == "smallest+proportional+pack"
    assert "smallest" in {info.name for info in registry.parts()}


def test_presets_of_an_installed_package_are_known(installed: None) -> None:
    assert build("mine") == build("smallest+requested+spread")
    assert {"mine", "dally"} <= {preset.name for preset in registry.presets()}


def test_rules_of_an_installed_package_are_known(installed: None) -> None:
    assert Options(rules=rules_named("generous")).restart_cost_seconds == 0.0
    with pytest.raises(InputError, match="did you mean generous"):
        rules_named("generos")
    with pytest.raises(InputError, match="names Rules"):
        rules_named("wrong")


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("fif", {}, "did you mean fifo"),
        ("las+srtf", {}, "las and srtf both say the queue order; name one of them"),
        ("las+pack+spread", {}, "pack and spread both say the placement; name one of them"),
        ("las+las", {}, "las is named more than once; name it once"),
        ("quota+las+quota", {}, "quota is named more than once; name it once"),
        ("las+tune+tune", {}, "tune is named more than once; name it once"),
        ("proportional", {}, "an order is missing"),
        (
            "las",
            {"quantum": "300"},
            "allowed: lease_seconds, migrate, preemptive, promote_after_seconds, promote_for_good, quantum_seconds, "
            "queues, strict",
        ),
        ("las", {"quantum_seconds": "soon"}, "quantum_seconds takes a number"),
        ("las", {"queues": "1,x"}, "queues takes"),
        ("quota+fifo", {"limits": "a=3"}, "names with numbers, as a:1,b:2"),
        ("fifo", {"strict": "maybe"}, "strict takes true or false"),
        ("nowhere.py:X", {}, "nowhere.py: there is no such file"),
        ("json:JSONDecoder", {}, "allowed: a class that is a part"),
        ("json:Nothing", {}, "json has no Nothing"),
    ],
)
def test_a_wrong_scheduler_or_setting_is_refused(name: str, settings: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        build(name, settings)


def test_an_unknown_preset_is_refused_with_its_family() -> None:
    known = next(name for name in known_presets() if ":" in name)
    with pytest.raises(InputError, match=f"no such preset.*{re.escape(known)}"):
        build(f"{known.partition(':')[0]}:nothing")


def test_a_broken_file_is_refused_with_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("class Oops(:\n")
    with pytest.raises(InputError, match=":1: "):
        build(f"{broken}:Oops")


@pytest.mark.parametrize("name", ["yarn-cs", "dally-plus", "dally"])
def test_a_preset_goes_by_its_own_name_and_is_its_parts(name: str) -> None:
    preset = known_presets()[name]
    named, spelled = build(name), build(preset.parts, preset.settings)
    assert (named.name, named.describe()["name"]) == (name, name)
    assert named == spelled
    assert named.describe()["parts"] == spelled.describe()["parts"]
