"""Fair Tree as a plain recursion over a tree that is built for each usage: the oracle of the compiled one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from muster.schedulers.fair_tree import Association


@dataclass
class ReferenceBranch:
    """An account, or a user where it has a number."""

    shares: float
    usage: float = 0.0
    number: int | None = None
    level: float = inf
    children: dict[tuple[str, bool], ReferenceBranch] = field(default_factory=dict)


def fair_tree_factors(associations: Sequence[Association], usage: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each user over the number of users, the root's own user included."""
    root = ReferenceBranch(1.0)
    root.children["root", True] = ReferenceBranch(1.0, number=-1)
    for number, one in enumerate(associations):
        branch, amount = root, float(usage[number])
        branch.usage += amount
        last = len(one.path) - 1
        for depth, (name, shares) in enumerate(zip(one.path, one.shares, strict=True)):
            branch = branch.children.setdefault((name, depth == last), ReferenceBranch(shares))
            branch.usage += amount
        branch.number = number
    count = len(associations) + 1
    factors = np.zeros(count)  # the root's own user is the last
    _set_levels(root)
    _rank(list(root.children.values()), [count, count], False, factors)
    return factors[:-1]


def _set_levels(branch: ReferenceBranch) -> None:
    shares = sum(child.shares for child in branch.children.values())
    for child in branch.children.values():
        used = child.usage / branch.usage if branch.usage > 0 else 0.0
        share = child.shares / shares if shares > 0 else 0.0
        child.level = share / used if used > 0 else (inf if share > 0 else 0.0)
        _set_levels(child)


def _rank(
    siblings: list[ReferenceBranch], ranks: list[int], tied_before: bool, factors: NDArray[np.float64]
) -> None:
    """Rank siblings, best first. `ranks` are the rank of the last user and the one after it."""
    ordered = sorted(siblings, key=lambda branch: (-branch.level, branch.number is None))
    before, at = inf if tied_before else None, 0
    count = len(factors)
    tied = tied_before
    while at < len(ordered):
        branch = ordered[at]
        if at > 0:
            tied = branch.level == before
        before = branch.level
        at += 1
        if branch.number is not None:
            if not tied:
                ranks[0] = ranks[1]
            factors[branch.number] = ranks[0] / count
            ranks[1] -= 1
            continue
        merged = list(branch.children.values())
        while at < len(ordered) and ordered[at].level == before:
            merged += ordered[at].children.values()
            at += 1
        _rank(merged, ranks, tied, factors)
