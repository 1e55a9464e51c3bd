from muster.cluster.ledger_arrays import Bools, Ints

NOT_PLANNED: int
PLANNED: int
STARTED: int

class SlurmCycle:
    def __init__(self, free: Ints, completing: Bools, kill_wait: int) -> None: ...
    def add_running(self, ends: Ints, orders: Ints, first: Ints, nodes: Ints, amounts: Ints) -> None: ...
    def main(self, wanted: Ints, needs: Ints, allowed: Bools) -> list[Ints]: ...
    def backfill(
        self,
        now: int,
        orders: Ints,
        wanted: Ints,
        needs: Ints,
        limits: Ints,
        allowed: Bools,
        window: int,
        resolution: int,
    ) -> tuple[Ints, Ints, list[Ints | None]]: ...
