"""A part or class of a user that answers nonsense, or cannot be made: one message with its file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.problems import InputError
from muster.schedulers.registry import build
from tests.building import cluster_of, job, jobs_of, run

HEAD = """\
import numpy as np
from muster.schedulers.parts import AdmissionFilter, Allocation, GangAllocator, Order, Ranking

"""
JOBS = jobs_of(job(0, 100, gpus=2), job(10, 50, gpus=3), job(20, 20, gpus=1))
NOTHING = "np.zeros(0, np.int64), 2, np.zeros(0), np.zeros(0)"


def refused(folder: Path, text: str, name: str = "mine.py:Mine") -> str:
    """The error of a run under a policy."""
    (folder / "mine.py").write_text(HEAD + text)
    with pytest.raises(InputError) as error:
        run(JOBS, cluster_of(4), build(name.replace("mine.py", str(folder / "mine.py"))))
    return str(error.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("None", "NoneType"),
        ("np.full((1, 1, 4), np.nan)", r"float64 of shape (1, 1, 4)"),
        ("np.zeros(3, np.int64)", "int64 of shape (3,)"),
        ("np.zeros((7, 1, 4), np.int64)", "int64 of shape (7, 1, 4)"),
        ("np.zeros((1, 0, 4), np.int64)", "int64 of shape (1, 0, 4)"),
        ("np.zeros((1, 1, 2), np.int64)", "int64 of shape (1, 1, 2)"),
    ],
)
@pytest.mark.parametrize("order", ["fifo", "las"])
def test_amounts_of_another_shape_are_refused(tmp_path: Path, answer: str, found: str, order: str) -> None:
    text = "class Mine(Allocation):\n    name = 'mine'\n    def resource_options(self, snapshot, jobs):\n"
    said = refused(tmp_path, f"{text}        return {answer}\n", f"{order}+mine.py:Mine")
    assert said.startswith(
        f"mine.py:6: resource_options of part mine: found {found}; allowed: an array of int64"
    )


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("ranked", "found ndarray; allowed: a Ranking"),
        (f"Ranking(ranked + 100, {NOTHING})", "found [100]; ranked: allowed: positions"),
        (f"Ranking(ranked - 3, {NOTHING})", "found [-3]; ranked: allowed: positions"),
        (f"Ranking(np.repeat(ranked, 2), {NOTHING})", "found [0, 0]; ranked: allowed: positions"),
        (f"Ranking(ranked * 1.0, {NOTHING})", "found ndarray; ranked: allowed: positions"),
        (
            "Ranking(ranked, ranked + 9, 2, ranked * 0.0, ranked * 0.0)",
            "found [9]; excluded: allowed: positions",
        ),
    ],
)
def test_positions_that_were_not_ranked_are_refused(tmp_path: Path, answer: str, found: str) -> None:
    text = (
        "class Mine(AdmissionFilter):\n    name = 'mine'\n    def select(self, snapshot, ranked, pinned):\n"
    )
    said = refused(tmp_path, f"{text}        return {answer}\n", "las+mine.py:Mine")
    assert said.startswith(f"mine.py:6: select of part mine: {found}")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("None", "found NoneType; allowed: an array of int64"),
        ("ranking.ranked * 1.0", "found ndarray; allowed: an array of int64"),
        (
            "ranking.ranked + 100",
            "found [100]; allowed: an array of int64, positions of ranked jobs that wait",
        ),
        (
            "np.flatnonzero(placed)",
            "found [0]; allowed: an array of int64, positions of ranked jobs that wait",
        ),
    ],
)
def test_only_jobs_without_a_place_are_in_vain(tmp_path: Path, answer: str, found: str) -> None:
    text = (
        "class Mine(AdmissionFilter):\n    name = 'mine'\n    def select(self, snapshot, ranked, pinned):\n"
        f"        return Ranking(ranked, {NOTHING})\n"
        "    def counted_in_vain(self, snapshot, ranking, placed, free):\n"
    )
    said = refused(tmp_path, f"{text}        return {answer}\n", "las+mine.py:Mine")
    assert said.startswith(f"mine.py:8: counted_in_vain of part mine: {found}")


@pytest.mark.parametrize(
    ("method", "found"),
    [
        (
            "keys(self, snapshot, memory): return 1.0 * snapshot.jobs.gpus",
            "found ndarray; allowed: the keys and",
        ),
        ("next_tick(self, snapshot, memory): return float('nan')", "found nan; allowed: a number of seconds"),
        ("next_tick(self, snapshot, memory): return 'soon'", "found soon; allowed: a number of seconds"),
        ("next_rank_change(self, *columns): return float('nan')", "found nan; allowed: a number of seconds"),
        ("next_rank_change(self, *columns): return None", "allowed: a number of seconds"),
    ],
)
def test_what_an_order_answers_is_checked(tmp_path: Path, method: str, found: str) -> None:
    text = "class Mine(Order):\n    name = 'mine'\n    def key(self, jobs): return 1.0 * jobs.gpus\n"
    said = refused(tmp_path, f"{text}    def quantum(self): return 60.0\n    def {method}\n")
    assert said.startswith(f"mine.py:8: {method.partition('(')[0]} of order mine: {found}")


@pytest.mark.parametrize(
    ("unit", "line"), [("key_unit = 'hours'", 4), ("@property\n    def key_unit(self): return 'hours'", 7)]
)
def test_the_unit_of_keys_is_one_that_is_known(tmp_path: Path, unit: str, line: int) -> None:
    text = "class Mine(Order):\n    name = 'mine'\n    def key(self, jobs): return 1.0 * jobs.gpus\n"
    said = refused(tmp_path, f"{text}    {unit}\n")
    allowed = "allowed: seconds, gpu-seconds or an empty text"
    assert said.startswith(f"mine.py:{line}: key_unit of order mine: found hours; {allowed}")


WHOLE = "class Mine:\n    name = 'mine'\n    def initial(self, cluster): pass\n    def decide(self, *asked): pass\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class Mine(Order):\n    name = 'mine'\n", "mine.py:4: Mine: it has no method key or keys"),
        (
            "class Mine(Order):\n    def key(self, jobs): pass\n",
            "mine.py:4: Mine: name: found ''; allowed: a text",
        ),
        (WHOLE, "mine.py:4: Mine: it has no method describe"),
        (WHOLE.replace("'mine'", "7"), "mine.py:4: Mine: name: found 7; allowed: a text"),
        (
            f"{WHOLE}    def describe(self): return dict(name='mine')\n",
            "mine.py:4: Mine: describe: found keys ['name']; allowed: a dict of name, needs, parts, settings",
        ),
        (
            f"{WHOLE}    def describe(self): pass\n",
            "mine.py:4: Mine: describe: found NoneType; allowed: a dict",
        ),
        (f"{WHOLE}    def describe(self): return 1 / 0\n", "mine.py:8: in describe: ZeroDivisionError"),
        (f"{WHOLE}    def __init__(self, x): pass\n", "mine.py:4: Mine: x: no default"),
        (
            f"{WHOLE}    def __init__(self): raise ValueError('never')\n",
            "mine.py:8: in __init__: ValueError: never",
        ),
    ],
)
def test_a_class_that_is_no_policy_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert re.match(re.escape(said), refused(tmp_path, text))
