"""Runs test files in one process until a test fails: `python -m tests.mutation.in_turn OPTION... -- FILE...`.

Files come one after the other, as most mutations are noticed by the first or second: the others are not read then. All
come twice, first with few examples of each Hypothesis test, then with all. What fails with few must also fail with all;
what passes with all examples in the first pass is not run again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from tests.mutation import bounded

_PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status of the first file in which not all tests pass; NO_TESTS_COLLECTED if no file has any."""
    end = arguments.index("--")
    options, files = arguments[:end], arguments[end + 1 :]
    settled: set[str] = set()
    last: int = pytest.ExitCode.NO_TESTS_COLLECTED
    for file in files:
        first = bounded.FewExamples()
        status = pytest.main([*options, "-rN", file], plugins=[bounded, first])
        settled |= first.settled
        if status == pytest.ExitCode.INTERRUPTED:
            break  # it has used its time, and gets it again for all examples
        if status not in _PASSED:
            status = pytest.main([*options, *(first.failed or [file])], plugins=[bounded])
            if status not in _PASSED:
                return int(status)
        last = min(last, status)
    bounded.begin_again()
    for file in files:
        status = pytest.main([*options, file], plugins=[bounded, bounded.Without(settled)])
        if status not in _PASSED:
            return int(status)
        last = min(last, status)
    return int(last)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
