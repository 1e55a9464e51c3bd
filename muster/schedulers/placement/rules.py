"""The compiled placement rules; `rules_core.find_nodes` says what each does."""

from dataclasses import dataclass
from typing import ClassVar

from muster.schedulers.honours import EVEN_GANGS
from muster.schedulers.parts import Placement
from muster.schedulers.placement import job_columns


@dataclass(frozen=True)
class CompiledRule(Placement):
    """A rule of `rules_core`."""

    honours: ClassVar[frozenset[str]] = frozenset({EVEN_GANGS})


@dataclass(frozen=True)
class Pack(CompiledRule):
    """Best fit: the fullest node that holds the gang, else as few nodes as possible."""

    name: ClassVar[str] = "pack"
    rule: ClassVar[int] = job_columns.PACK
    compiled: ClassVar[int | None] = job_columns.PACK


@dataclass(frozen=True)
class FirstFit(CompiledRule):
    """Nodes in order, as many GPUs on each as fit."""

    name: ClassVar[str] = "first-fit"
    rule: ClassVar[int] = job_columns.FIRST_FIT
    compiled: ClassVar[int | None] = job_columns.FIRST_FIT


@dataclass(frozen=True)
class Consolidate(CompiledRule):
    """Best fit on the fewest nodes that could ever hold the gang; otherwise it waits."""

    name: ClassVar[str] = "consolidate"
    rule: ClassVar[int] = job_columns.CONSOLIDATE
    compiled: ClassVar[int | None] = job_columns.CONSOLIDATE


@dataclass(frozen=True)
class Spread(CompiledRule):
    """One GPU at a time, where most are free."""

    name: ClassVar[str] = "spread"
    rule: ClassVar[int] = job_columns.SPREAD
    compiled: ClassVar[int | None] = job_columns.SPREAD


@dataclass(frozen=True)
class Yarn(CompiledRule):
    """The first node that holds the gang, or where none is large enough the first empty ones and one for the rest."""

    name: ClassVar[str] = "yarn"
    rule: ClassVar[int] = job_columns.YARN
    compiled: ClassVar[int | None] = job_columns.YARN
