"""The network's speeds by the models of some jobs, where the network counts for any of them."""

from __future__ import annotations

from collections.abc import Mapping

from muster.cluster import Cluster
from muster.speed.network.model_file import network_models, network_of
from muster.speed.network.models import NetworkModel
from muster.speed.network.speed import NetworkSpeed, places_count
from muster.speed.parameter_server.of_jobs import ring_models
from muster.workload.jobs import JobTable

AUTO, NONE = "auto", "none"


def network_of_jobs(
    table: JobTable,
    cluster: Cluster,
    *,
    flavour: str = AUTO,
    congestion: float = 0.0,
    profiles: Mapping[str, NetworkModel] | None = None,
) -> NetworkSpeed | None:
    """The network's speeds by the table's models; None where it does not count for any of them.

    `auto`: the physical network where the cluster has more of it than one rack, and for rings everywhere.
    `profiles` go before what the models' own files state. A model without a file has the shipped network of its name.
    """
    if flavour == NONE:
        return None
    names = table.model_names
    models: list[NetworkModel | None] = [None] * len(names)
    if flavour != AUTO or places_count(cluster):
        own = {name.lower(): model for name, model in (profiles or {}).items()}
        known, _ = network_models(names)
        for number, stated in enumerate(table.models):
            if stated is not None:
                file = network_of(stated)
                known[number] = None if file is None else file.model
        models = [own.get(name.lower(), found) for name, found in zip(names, known, strict=True)]
    for number, ring in ring_models(table, profiles).items():
        models[number] = ring
    if not any(models):
        return None
    return NetworkSpeed(
        models, cluster, flavour="physical" if flavour == AUTO else flavour, congestion=congestion
    )
