from collections.abc import Sequence
from dataclasses import dataclass

from muster.cluster.ledger_arrays import Floats

@dataclass(frozen=True)
class Association:
    path: tuple[str, ...]
    shares: tuple[float, ...]

class FairTree:
    associations: tuple[Association, ...]
    def __init__(self, associations: Sequence[Association]) -> None: ...
    def factors(self, usage: Floats) -> Floats: ...
