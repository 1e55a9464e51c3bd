"""Shares of a GPU among whole ones."""

from __future__ import annotations

from experiments.joint.shares import QUEUES, lines


def test_shares_cost_joint_no_time_beside_tune_plus() -> None:
    """While running jobs made no room for shares, joint had 5,141 s in the mean and tune-plus 5,058."""
    _, tune_plus, joint = (line.split() for line in lines(["gittins"], QUEUES))
    assert [tune_plus[0], joint[0]] == ["gittins+tune-plus", "gittins+joint"]
    assert float(joint[1].replace(",", "")) < float(tune_plus[1].replace(",", ""))
