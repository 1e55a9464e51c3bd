"""The queues on which the default scheduler is compared with joint are those that they say they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.joint.everyday import lines, queues


def test_each_queue_has_a_name_of_its_own() -> None:
    names = [queue.name for queue in queues()]
    assert len(set(names)) == len(names)


def test_queues_of_the_reference_are_left_out_without_it() -> None:
    assert list(lines("Philly, from", None)) == []
    (line,) = lines("tutorial: compare", None)
    assert line.startswith("tutorial: compare")


@pytest.mark.reference
def test_a_part_of_philly_wants_its_load(reference: Path) -> None:
    """Of 160 GPUs, from its first arrival to its last."""
    for queue in queues():
        name, _, load = queue.name.partition(", load ")
        if not name.startswith("Philly"):
            continue
        trace = queue.trace(reference)
        assert trace is not None
        jobs = trace.jobs
        seconds, submit = jobs["duration_seconds"].to_numpy(), jobs["submit_seconds"].to_numpy()
        work = float((jobs["gpus"].to_numpy() * seconds).sum())
        assert work / (160 * float(submit.max())) == pytest.approx(float(load), rel=1e-3)
