from collections.abc import Mapping, Sequence
from typing import Any

from muster.cluster.ledger_arrays import Books, Bools, Ints
from muster.schedulers.composed_core import CompiledScheduler

class ReservingCore(CompiledScheduler):
    def __init__(
        self,
        settings: Mapping[str, Any],
        kind_of: Ints,
        demands: Ints,
        needs: Ints,
        node_allowed: Bools,
        queues: Sequence[float],
    ) -> None: ...
    def wait(self, job: int, key: float, limit: float) -> None: ...
    def run(self, job: int) -> None: ...
    def keep(self, job: int, start: float, nodes: Ints, amounts: Ints) -> None: ...
    def decide_once(self, books: Books, asked: Any, facts: Any, now: float) -> float: ...
    def reservations(self) -> dict[int, tuple[float, Ints, Ints]]: ...
