"""Several runs at a time: results in order whatever the number, and no silence where a process dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from muster.parallel import RunFailedError, _run, run_all
from muster.problems import InputError, Problem


@dataclass(frozen=True)
class Counting:
    """Reports up to a number and gives its square."""

    number: int

    def __call__(self, report: Callable[[Any], None]) -> int:
        for step in range(self.number):
            report(step)
        return self.number**2


@dataclass(frozen=True)
class Dying:
    """Ends without a word, as a process killed for its memory does."""

    def __call__(self, report: Callable[[Any], None]) -> int:
        os._exit(9)


@dataclass(frozen=True)
class Interrupted:
    """Gets the interrupt that a terminal sends to the whole group."""

    def __call__(self, report: Callable[[Any], None]) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return 7


@dataclass(frozen=True)
class Refusing:
    """Finds its input wrong."""

    def __call__(self, report: Callable[[Any], None]) -> int:
        raise InputError(Problem("trace.csv", "is wrong", row=3), Problem("trace.csv", "is wrong again"))


@pytest.mark.parametrize("at_once", [1, 3])
def test_results_do_not_depend_on_how_many_run_at_once(at_once: int) -> None:
    reports: dict[str, list[int]] = {"b": [], "a": [], "c": []}
    works = {"b": Counting(3), "a": Counting(5), "c": Counting(0)}
    results = run_all(works, at_once, lambda name, step: reports[name].append(step))
    assert list(results.items()) == [("b", 9), ("a", 25), ("c", 0)]
    assert reports == {"b": [0, 1, 2], "a": [0, 1, 2, 3, 4], "c": []}


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(RunFailedError, match="sick ended with status 9"):
        run_all({"well": Counting(2), "sick": Dying()}, 2, lambda name, value: None)


def test_an_interrupt_is_left_to_the_parent() -> None:
    assert run_all({"only": Interrupted()}, 1, lambda name, value: None) == {"only": 7}


@pytest.mark.parametrize("reports", [None, 0, 2])
def test_a_run_whose_parent_is_gone_ends_quietly(
    reports: int | None, capfd: pytest.CaptureFixture[str]
) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    if reports is not None:
        ours.send(Counting(reports))
    ours.close()
    process = context.Process(target=_run, args=(theirs,))
    process.start()
    process.join()
    assert (process.exitcode, capfd.readouterr().err) == (0, "")


def test_a_refusal_keeps_its_problems() -> None:
    with pytest.raises(InputError) as refused:
        run_all({"only": Refusing()}, 1, lambda name, value: None)
    assert [problem.row for problem in refused.value.problems] == [3, None]
