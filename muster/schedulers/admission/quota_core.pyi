from collections.abc import Sequence

from muster.cluster.ledger_arrays import Bools, Floats, Ints

def quota_keys(
    candidates: Ints, tenant: Ints, demand: Floats, used: Floats, per_tenant: Sequence[Floats]
) -> tuple[Floats, Bools]: ...
