"""Errors of a policy from a user's file: one message with its file and line, status 2, nothing written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import MUSTER, Outcome, muster_process

Muster = Callable[..., Outcome]

POLICY = """\
import numpy as np
from muster.schedulers.parts import Order

class Mine(Order):
    name = "mine"

    def key(self, jobs):
        {body}
"""
COMMANDS = ("simulate", "compare")


def with_policy(folder: Path, trace: Path, command: str, text: str, beside: str = "") -> Outcome:
    """What a command answers that runs `mine.py:Mine`, and the parts beside it."""
    (folder / "mine.py").write_text(text)
    flags = ("--cluster", "1x8gpu", "--scheduler", f"mine.py:Mine{beside}", "--out", "out")
    return muster_process(command, trace.name, *flags, folder=folder)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1 / 0", "mine.py:8: in key: ZeroDivisionError: division by zero"),
        ("return jobs.gpu", "mine.py:8: in key: AttributeError: 'Jobs' object has no attribute 'gpu'"),
        (
            "return np.where(jobs.gpus == 4, np.nan, 1.0)",
            "mine.py:7: key of order mine: found nan for job 2; allowed: a number for each job",
        ),
        ("raise SystemExit(3)", "mine.py:8: in key: SystemExit: 3"),
        (
            "return jobs.gpus\n    preemptive = True\n    def quantum(self):\n        return float('nan')",
            "mine.py:10: quantum of order mine: found nan; allowed: seconds above 0, or inf",
        ),
        (
            "return None",
            "mine.py:7: key of order mine: found NoneType; allowed: a number for each job",
        ),
        (
            "return jobs.gpus[:0]",
            "mine.py:7: key of order mine: found 0 numbers for 1 job; allowed: a number for each job",
        ),
        (
            "return np.array(['a'] * len(jobs))",
            "mine.py:7: key of order mine: found values of type <U1; allowed: a number for each job",
        ),
    ],
)
def test_an_error_while_deciding_names_file_and_line(
    tmp_path: Path, trace: Path, command: str, body: str, said: str
) -> None:
    failed = with_policy(tmp_path, trace, command, POLICY.format(body=body))
    assert (failed.status, failed.out) == (2, "")
    assert said in failed.err
    assert "Traceback" not in failed.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("key", "margin", "said"),
    [
        ("jobs.arrival", "float('nan')", "found nan; allowed: a number of at least 1"),
        ("jobs.arrival", "0.5", "found 0.5; allowed: a number of at least 1"),
        ("-jobs.gpus", "2.0", "found 2.0; allowed: 1 where keys are below 0"),
    ],
)
def test_a_margin_that_means_nothing_is_refused(
    tmp_path: Path, trace: Path, key: str, margin: str, said: str
) -> None:
    text = POLICY.format(body=f"return {key}\n    def margin(self):\n        return {margin}")
    failed = with_policy(tmp_path, trace, "simulate", text, "+joint")
    assert (failed.status, failed.out) == (2, "")
    assert f"mine.py:9: margin of order mine: {said}" in failed.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere_to_be_found\n", "mine.py:1: it cannot be loaded: ModuleNotFoundError"),
        ("\nx = 1\ny = x / 0\n", "mine.py:3: it cannot be loaded: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", "mine.py:1: it cannot be loaded: SystemExit: 3"),
        ("class Mine(:\n", "mine.py:1: it cannot be loaded: SyntaxError: invalid syntax"),
    ],
)
def test_an_error_while_loading_names_file_and_line(
    tmp_path: Path, trace: Path, text: str, said: str
) -> None:
    failed = with_policy(tmp_path, trace, "simulate", text)
    assert (failed.status, failed.out) == (2, "")
    assert said in failed.err
    assert "Traceback" not in failed.err


def test_a_whole_scheduler_is_named_as_well(tmp_path: Path, trace: Path) -> None:
    text = "class Mine:\n    name = 'mine'\n    def initial(self, cluster):\n        return {}[cluster]\n"
    text += "    def decide(self, view, state):\n        pass\n"
    text += "    def describe(self):\n        return dict(name='mine', parts={}, settings={}, needs=[])\n"
    failed = with_policy(tmp_path, trace, "simulate", text)
    assert failed.status == 2
    assert "mine.py:4: in initial: KeyError" in failed.err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_traceback_is_there_for_who_debugs(tmp_path: Path, trace: Path, command: str) -> None:
    (tmp_path / "mine.py").write_text(POLICY.format(body="return 1 / 0"))
    done = subprocess.run(
        [*MUSTER, command, trace.name, "--cluster", "1x8gpu", "--scheduler", "mine.py:Mine"],
        cwd=tmp_path,
        env={**os.environ, "MUSTER_DEBUG": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "return 1 / 0" in done.stderr


def test_a_failing_sweep_names_file_and_line(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY.format(body="return 1 / 0"))
    sweep = f'schedulers = ["fifo", "mine.py:Mine"]\nclusters = "1x8gpu"\ntraces = "{trace.name}"\n'
    (tmp_path / "sweep.toml").write_text(sweep)
    failed = muster_process("sweep", "sweep.toml", "--out", "out", folder=tmp_path)
    assert failed.status == 2
    assert "mine.py:8: in key: ZeroDivisionError" in failed.err


OF_A_WHOLE_SCHEDULER = """\
    name = "mine"

    def describe(self):
        return {"name": self.name, "parts": {}, "settings": {}, "needs": []}

    def initial(self, cluster):
        return None
"""
ALWAYS_NOW = f"""\
import numpy as np
from muster.schedulers import reasons
from muster.cluster.ledger import NO_CHANGES
from muster.schedulers.contract import Decision

class Mine:
{OF_A_WHOLE_SCHEDULER}
    def decide(self, view, state):
        nothing = np.zeros(len(view.jobs))
        codes = np.full(len(view.jobs), reasons.NO_GPUS)
        return Decision(NO_CHANGES, codes, nothing, nothing, next_wake=view.now), state
"""
A_PART_THAT_ASKS_AT_ONCE = """\
from muster.schedulers.parts import Order

class Mine(Order):
    name = "mine"

    def key(self, jobs):
        return jobs.gpus * 1.0

    def quantum(self):
        return 1e-300

    def next_rank_change(self, view, keys, running, waiting, memory):
        return view.now
"""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ALWAYS_NOW, "mine.py:15: mine: 1001 decisions in a row at 0 s change nothing"),
        (A_PART_THAT_ASKS_AT_ONCE, "mine.py: mine+proportional+pack: 1001 decisions in a row at "),
    ],
)
def test_a_policy_that_stops_the_clock_is_named(
    tmp_path: Path, trace: Path, command: str, text: str, said: str
) -> None:
    failed = with_policy(tmp_path, trace, command, text)
    assert (failed.status, failed.out) == (2, "")
    assert said in failed.err
    assert "Traceback" not in failed.err
    assert not (tmp_path / "out").exists()


HELPER = f"""\
import numpy as np
from muster.schedulers.contract import Proposal
from muster.schedulers.parts import Order

class Base:
{OF_A_WHOLE_SCHEDULER}
    def decide(self, view, state):
        with view.transaction() as transaction:
            return self.decided(Proposal.blank(transaction, len(view.jobs))), state

class Wrong(Base):
    def decided(self, proposal):
        proposal.reasons[:] = 987
        return proposal.decision()

class Failing(Base):
    def decided(self, proposal):
        proposal.transaction.release(9999)

class Infinite(Order):
    name = "mine"

    def key(self, jobs):
        return np.full(len(jobs), np.nan)
"""


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("Wrong", "helper.py:14: mine: "),
        ("Failing", "helper.py:25: in decided: "),
        ("Infinite", "helper.py:30: key of order mine: found nan for job 1"),
    ],
)
@pytest.mark.parametrize("form", ["from helper import {0} as Base", "import helper\nBase = helper.{0}"])
def test_an_error_in_what_a_policy_imports_has_a_line(
    tmp_path: Path, trace: Path, base: str, said: str, form: str
) -> None:
    """It is the user's own file, too; errors in the packages of others are named where the user calls them."""
    (tmp_path / "helper.py").write_text(HELPER)
    text = f"{form.format(base)}\n\nclass Mine(Base):\n    pass\n"
    failed = with_policy(tmp_path, trace, "simulate", text)
    assert (failed.status, failed.out) == (2, "")
    assert failed.err.startswith(said), failed.err
    assert "Traceback" not in failed.err


def test_an_error_in_a_package_is_named_where_it_is_called(tmp_path: Path, trace: Path) -> None:
    failed = with_policy(
        tmp_path, trace, "simulate", POLICY.format(body="return np.linalg.inv(np.zeros((2, 2)))")
    )
    assert failed.err.startswith("mine.py:8: in key: LinAlgError: Singular matrix")
