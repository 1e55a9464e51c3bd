"""What schedulers that reserve have in common: an order, parts and their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from muster.schedulers.parts import Order, Part, described, named


@dataclass(frozen=True)
class BackfillScheduler:
    """Jobs in an order, some of which may pass others."""

    order: Order
    parts: tuple[Part, ...]
    """All of its parts as they are named."""
    preset: str = field(default="", compare=False, kw_only=True)
    """The name under which its parts were asked for, if that is a preset's."""
    divides_gpus: ClassVar[bool] = False
    changes_amounts: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """As on the command line: a preset by its own name, else every part spelled out."""
        return self.preset or named(self.parts)

    def describe(self) -> dict[str, Any]:
        """Parts, settings and rules, for the record."""
        return described(self.name, self.parts, {})
