from collections.abc import Mapping, Sequence
from typing import Any

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.composed_core import CompiledScheduler

class WholeQueueScheduler(CompiledScheduler):
    def __init__(
        self,
        settings: Mapping[str, Any],
        kind_of: Ints,
        demands: Ints,
        needs: Ints,
        node_allowed: Bools,
        queues: Sequence[float],
        quota: tuple[Floats, Floats, Floats] | None,
    ) -> None: ...
