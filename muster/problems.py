"""What is wrong with an input: where, what was found, what is allowed.

Every reader and every flag check collects `Problem`s and raises one `InputError` with all of them, so a
user corrects a file in one go. The command line prints them and exits with status 2; nothing was written.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar, cast

SHOWN_AT_MOST = 20

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input."""

    where: str
    """File, flag or request field: `trace.csv`, `--cluster`."""
    what: str
    """What is wrong, `allowed: ...`, `Hint: ...`, each where it helps; without the last full stop."""
    row: int | None = None
    """Line of the file, the header being line 1."""
    column: str | None = None
    found: object = None

    def __str__(self) -> str:
        """`trace.csv:7: gpus: found '-1'; allowed: a whole number from 1 on`."""
        place = self.where
        if self.row is not None:
            place += f":{self.row}"
        if self.column is not None:
            place += f": {self.column}"
        found = "" if self.found is None else f"found {self.found!r}; "
        return f"{place}: {found}{self.what}"


class InputError(Exception):
    """An input that cannot be used, with every problem found in it."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems: Sequence[Problem] = problems

    def __str__(self) -> str:
        """One line a problem, the first twenty, then how many more there are."""
        lines = [str(problem) for problem in self.problems[:SHOWN_AT_MOST]]
        if (more := len(self.problems) - SHOWN_AT_MOST) > 0:
            lines.append(f"and {more} more problem{'' if more == 1 else 's'} like these")
        return "\n".join(lines)


class ErrorCollector:
    """Collects the problems of several inputs, to raise them together."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def of(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `call` returns. If it raises an InputError, `settle` raises it: use no result before that."""
        try:
            return call(*args, **kwargs)
        except InputError as bad:
            self._problems += bad.problems
            return cast(T, None)

    def settle(self) -> None:
        """Raise all problems met so far."""
        if self._problems:
            raise InputError(*self._problems)


class Unable(Exception):
    """The request was right and could not be carried out: no daemon answers, a disk is full.

    Asking again later may help. The command line says it and exits with status 1.
    """


def with_hint(what: str, hint: str) -> str:
    """`what`, and `hint` behind it if there is one."""
    return f"{what}. Hint: {hint}" if hint else what


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`did you mean las?` with up to three known names that resemble this one; empty if none does."""
    by_folded = {one.casefold(): one for one in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=cutoff)
    return f"did you mean {' or '.join(by_folded[one] for one in close)}?" if close else ""
