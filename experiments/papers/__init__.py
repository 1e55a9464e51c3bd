"""The experiments of the papers, as data and small functions: one module a paper, each with its `PAPER`."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from muster.problems import InputError, Problem, did_you_mean, with_hint

if TYPE_CHECKING:
    from experiments.papers.experiment import Paper

FRAME = ("command", "experiment", "sweeps", "write")
"""Modules of the room that are not papers."""


def paper_names() -> list[str]:
    """The papers whose experiments can be run."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in FRAME)


def paper_named(name: str, only: Sequence[str] | None = None) -> Paper:
    """A paper by its name, with all its experiments or only some."""
    if name not in paper_names():
        what = f"there are experiments of: {', '.join(paper_names())}"
        raise InputError(Problem("PAPER", with_hint(what, did_you_mean(name, paper_names())), found=name))
    paper: Paper = import_module(f"experiments.papers.{name}").PAPER
    if not only:
        return paper
    names = [experiment.name for experiment in paper.experiments]
    what = f"the experiments of {name} are: {', '.join(names)}"
    unknown = [
        Problem("--only", with_hint(what, did_you_mean(wanted, names)), found=wanted)
        for wanted in only
        if wanted not in names
    ]
    if unknown:
        raise InputError(*unknown)
    return replace(
        paper, experiments=[experiment for experiment in paper.experiments if experiment.name in only]
    )
