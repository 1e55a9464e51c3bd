from collections.abc import Mapping, Sequence
from typing import Any

from muster.cluster.ledger_arrays import Bools, Ints

class CompiledScheduler:
    def __init__(
        self,
        settings: Mapping[str, Any],
        kind_of: Ints,
        demands: Ints,
        needs: Ints,
        node_allowed: Bools,
        queues: Sequence[float],
    ) -> None: ...
