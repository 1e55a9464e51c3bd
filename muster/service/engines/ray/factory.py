"""`muster serve --engine ray --address HOST:PORT`."""

from __future__ import annotations

from muster.extras import RAY, require
from muster.problems import InputError, Problem
from muster.service.engines.factory import ConfiguredEngine, EngineContext, EngineFactory, EngineOptions
from muster.service.engines.folder_trial import check_shared_folder
from muster.service.engines.ray.connection import RayConnection, RayError
from muster.service.engines.ray.engine import RayEngine
from muster.service.engines.ray.messages import NodesOnly
from muster.service.engines.ray.nodes import cluster_of

_OPTION = "--address"


def _configure(options: EngineOptions) -> ConfiguredEngine:
    address = options.address or ""
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65_536):
        what = "allowed: host and port of the head of a Ray cluster, for example 10.0.0.1:6379"
        raise InputError(Problem(_OPTION, what, found=options.address))
    require(RAY)
    connection = RayConnection(address)
    try:
        look = connection.ask(NodesOnly())
    except RayError as error:
        raise InputError(Problem(_OPTION, f"{error}. Hint: ray status", found=address)) from error
    finally:
        connection.close()
    if not look.nodes:
        none = "this Ray cluster has no node with GPUs. Hint: ray start --num-gpus N on its nodes"
        problems = [Problem(f"node {name}", what) for name, what in sorted(look.problems.items())]
        raise InputError(*(problems or [Problem(_OPTION, none, found=address)]))
    cluster = cluster_of(look.nodes, "ray", look.problems)

    def open_engine(context: EngineContext) -> RayEngine:
        for note in cluster.notes:
            context.warn(note)
        engine = RayEngine(context.folder, connection)
        if context.jobs is not None and (untried := check_shared_folder(context.jobs, connection.try_folder)):
            context.warn(untried)
        return engine

    return ConfiguredEngine(cluster, open_engine)


FACTORY = EngineFactory(RayEngine.capabilities, frozenset({_OPTION}), _configure)
