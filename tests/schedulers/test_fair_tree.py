"""Fair Tree against cases computed by hand: rank over users, level = share / usage among siblings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.scheduler_memory import from_bytes, to_bytes
from muster.schedulers.fair_tree import Association, FairTree

from .reference_fair_tree import fair_tree_factors


def factors(tree: Mapping[str, tuple[tuple[float, ...], float]]) -> list[float]:
    """Of associations `account/user` with their raw shares and usage."""
    associations = [Association(tuple(path.split("/")), shares) for path, (shares, _) in tree.items()]
    usage = np.array([usage for _, usage in tree.values()], np.float64)
    found: list[float] = FairTree(associations).factors(usage).tolist()
    return found


def test_without_usage_all_are_first() -> None:
    assert factors({"a/x": ((1, 1), 0), "a/y": ((1, 2), 0), "b/z": ((3, 1), 0)}) == [1, 1, 1]


def test_users_of_one_account_rank_by_share_over_usage() -> None:
    # Users x, y, z: shares 1/4, 1/4, 1/2; usage 1/6, 1/3, 1/2. Levels 1.5, 0.75, 1. The root's own user is first.
    assert factors({"a/x": ((1, 1), 10), "a/y": ((1, 1), 20), "a/z": ((1, 2), 30)}) == [0.75, 0.25, 0.5]


def test_all_users_of_the_better_account_come_first() -> None:
    # Accounts a, b: shares 1/2 each, usage 1/10 and 9/10. Within a, y has used less than x; within b, v nothing.
    tree = {"a/x": ((1, 1), 9.0), "a/y": ((1, 1), 1.0), "b/u": ((1, 1), 90.0), "b/v": ((1, 1), 0.0)}
    assert factors(tree) == [3 / 5, 4 / 5, 1 / 5, 2 / 5]


def test_users_that_tie_have_one_rank() -> None:
    tree = {"a/x": ((1, 1), 10.0), "a/y": ((1, 1), 10.0), "a/z": ((1, 1), 20.0)}
    assert factors(tree) == [3 / 4, 3 / 4, 1 / 4]


def test_accounts_that_tie_are_ranked_as_one() -> None:
    # a and b have level 1 each. Levels of their users: a/x 1, b/u 2, b/v 2/3.
    tree = {"a/x": ((1, 1), 20.0), "b/u": ((1, 1), 5.0), "b/v": ((1, 1), 15.0)}
    assert factors(tree) == [2 / 4, 3 / 4, 1 / 4]


@pytest.mark.parametrize("usage", [0.0, 5.0])
def test_a_user_without_shares_comes_last(usage: float) -> None:
    assert factors({"a/x": ((1, 0), usage), "a/y": ((1, 1), 100.0)})[0] == pytest.approx(1 / 3)


def test_deep_accounts_pass_their_level_on() -> None:
    # physics has used less than biology for its shares: its labs come first, though lab1 has used more than all others.
    tree = {
        "physics/lab1/ann": ((9, 1, 1), 50.0),
        "physics/lab2/bob": ((9, 1, 1), 10.0),
        "biology/lab3/cem": ((1, 1, 1), 40.0),
    }
    assert factors(tree) == [2 / 4, 3 / 4, 1 / 4]


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[Association], list[float]]:
    """Users of accounts at several depths, with shares and usage of which many tie."""
    path = st.tuples(st.lists(st.sampled_from("ab"), min_size=1, max_size=3), st.sampled_from("xyz"))
    paths = draw(st.lists(path.map(lambda one: (*one[0], one[1])), min_size=1, max_size=10, unique=True))
    shares, usage = (
        st.sampled_from((0.0, 1.0, 2.0, 3.5)),
        st.sampled_from((0.0, 10.0, 30.0)) | st.floats(0, 99),
    )
    return [Association(one, tuple(draw(shares) for _ in one)) for one in paths], [draw(usage) for _ in paths]


@given(trees())
def test_ranks_are_those_of_a_plain_recursion(tree: tuple[list[Association], list[float]]) -> None:
    associations, usage = tree[0], np.array(tree[1])
    found = FairTree(associations)
    found.factors(usage[::-1].copy())  # An earlier tick leaves nothing behind.
    assert found.factors(usage).tolist() == fair_tree_factors(associations, usage).tolist()


def test_a_tree_read_from_a_database_ranks_the_same() -> None:
    tree = FairTree([Association(("a", "x"), (1.0, 1.0)), Association(("b", "y"), (1.0, 2.0))])
    again = from_bytes(to_bytes(tree, "multifactor"), "multifactor", None)
    usage = np.array([1.0, 2.0])
    assert again.associations == tree.associations
    assert again.factors(usage).tolist() == tree.factors(usage).tolist() == [2 / 3, 1 / 3]
