"""`muster size`: how many workers and parameter servers one job should have."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import size_ring, size_servers
from muster.cli.flags import Gathering, Json
from muster.cli.size_view import CHART_SUFFIXES
from muster.problems import BadInput, Problem

if TYPE_CHECKING:
    from muster.cluster import Cluster
    from muster.speed.network.models import LayeredModel
    from muster.speed.parameter_server import Layers

PS, RING = "ps", "ring"
SERVER = "cpu=4,memory_gb=8"


def size(
    model: Annotated[str, typer.Argument(help="resnet50, vgg16, bert-large, ..., or a model of --layers.")],
    limit: Annotated[str, typer.Option(metavar="LIMIT", help="What the job may have; nic is of one server.")],
    sync: Annotated[
        str, typer.Option(metavar="KIND", help="ps (parameter servers) or ring (all-reduce).")
    ] = PS,
    cluster: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="Whose links a ring goes by: 4x8gpu or a file.")
    ] = None,
    worker: Annotated[str, typer.Option(metavar="NEEDS", help="Of one worker.")] = "gpu=1,cpu=4,memory_gb=16",
    server: Annotated[
        str | None, typer.Option(metavar="NEEDS", help=f"Of one server; {SERVER} if left out.")
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Samples an iteration, over all workers.")] = 256,
    iterations: Annotated[int, typer.Option(metavar="N", help="Until the job is done.")] = 10_000,
    losses: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV of step, loss so far, in place of --iterations.")
    ] = None,
    target_loss: Annotated[
        float | None, typer.Option(metavar="LOSS", help="Until which --losses goes on.")
    ] = None,
    gpu_tflops: Annotated[
        float, typer.Option(metavar="T", help="What a GPU sustains on a known model.")
    ] = 6.0,
    layers: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV of layer profiles.")] = None,
    profile_batch: Annotated[
        int | None, typer.Option(metavar="N", help="Samples a batch when --layers was measured.")
    ] = None,
    staleness: Annotated[int, typer.Option(metavar="N", help="Updates that an iteration may miss.")] = 0,
    table: Annotated[bool, typer.Option("--table", help="Show completion times around the best.")] = False,
    chart: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw them into a .svg or .png.")] = None,
    as_json: Json = False,
) -> None:
    """Find the best number of workers and parameter servers, or of workers in a ring.

    Example: muster size vgg16 --limit gpu=8,cpu=64,nic=10Gbit/s --table
    """
    from muster.sizing import RESOURCES, sized, sized_ring
    from muster.speed.parameter_server import bounded_staleness

    in_ring = sync == RING
    told = Gathering()
    told.of(_check_flags, chart, iterations)
    told.of(_check_sync, sync, cluster, server, staleness)
    iterations = told.of(_left, losses, target_loss, iterations)
    asked = RESOURCES if in_ring else (*RESOURCES, "nic")
    limits = told.of(_quantities, "--limit", limit, asked, ("gpu",) if in_ring else ("gpu", "nic"))
    of_a_worker = told.of(_quantities, "--worker", worker, RESOURCES)
    if in_ring:
        trained = told.of(_ring_model, model, gpu_tflops, layers, profile_batch)
        links = told.of(_links, cluster)
        told.settle()
        ring = sized_ring(trained, batch, links, of_a_worker, limits, iterations)
        if chart is not None:
            size_ring.draw(ring, model, chart)
        if as_json:
            answer = size_ring.document(ring, model, links.name, limits, iterations)
        else:
            size_ring.show(ring, model, links.name, limits, iterations, table)
    else:
        of_a_server = told.of(_quantities, "--server", server or SERVER, RESOURCES)
        known = told.of(_layers, model, gpu_tflops, layers, profile_batch)
        told.settle()
        step = bounded_staleness(known, batch, limits["nic"], staleness)
        pair = sized(step, of_a_worker, of_a_server, limits, iterations)
        if chart is not None:
            size_servers.draw(pair, model, chart)
        if as_json:
            answer = size_servers.document(pair, model, limits, iterations)
        else:
            size_servers.show(pair, model, limits, iterations, table)
    if as_json:
        print(json.dumps(answer, indent=2))


def _check_flags(chart: Path | None, iterations: int) -> None:
    problems = []
    if chart is not None and chart.suffix.lower() not in CHART_SUFFIXES:
        problems.append(Problem("--chart", "a file that ends in .svg or .png is needed", found=str(chart)))
    if iterations < 1:
        problems.append(Problem("--iterations", "a whole number from 1 on is needed", found=iterations))
    if problems:
        raise BadInput(*problems)


def _check_sync(sync: str, cluster: str | None, server: str | None, staleness: int) -> None:
    """What the one kind of job has and the other has not."""
    problems = []
    if sync not in (PS, RING):
        problems.append(Problem("--sync", f"{PS} (parameter servers) or {RING} (all-reduce)", found=sync))
    if sync == RING and server is not None:
        problems.append(Problem("--server", "a ring has no servers", found=server))
    if sync == RING and staleness:
        problems.append(Problem("--staleness", "the workers of a ring wait for each other", found=staleness))
    if sync == PS and cluster is not None:
        what = "servers go by the nic of --limit; a cluster belongs to --sync ring"
        problems.append(Problem("--cluster", what, found=cluster))
    if problems:
        raise BadInput(*problems)


def _left(losses: Path | None, target: float | None, iterations: int) -> int:
    """Iterations until a loss, where one is to be reached, by the curve of the losses so far."""
    from muster.speed.parameter_server.loss_curve import fit_loss_curve, read_losses

    if losses is None and target is None:
        return iterations
    if target is None:
        raise BadInput(Problem("--target-loss", "the loss to reach is needed beside --losses"))
    if losses is None:
        raise BadInput(Problem("--losses", "the losses so far are needed beside --target-loss"))
    steps, measured = read_losses(losses)
    return max(fit_loss_curve(steps, measured).remaining_steps(target, int(steps[-1])), 1)


def _layers(model: str, gpu_tflops: float, file: Path | None, profile_batch: int | None) -> Layers:
    """Of a model known by name, or of one in a file."""
    from muster.speed.parameter_server.architectures import estimated_layers
    from muster.speed.parameter_server.profile import profiled_layers

    if file is None:
        return estimated_layers(model, gpu_tflops)
    return profiled_layers(file, model, profile_batch)


def _ring_model(model: str, gpu_tflops: float, file: Path | None, profile_batch: int | None) -> LayeredModel:
    """Likewise, as the network model takes them."""
    from muster.speed.parameter_server.architectures import estimated_layers
    from muster.speed.parameter_server.profile import profiled_model
    from muster.speed.parameter_server.ring import layered_model

    if file is None:
        return layered_model(model, estimated_layers(model, gpu_tflops))
    return profiled_model(file, model, profile_batch)


def _links(name: str | None) -> Cluster:
    """The cluster of a ring."""
    from muster.cluster.shipped import parse_cluster

    if name is None:
        what = "a ring goes by the links between its workers: give --cluster, such as 4x8gpu or your file"
        raise BadInput(Problem("--cluster", what))
    return parse_cluster(name)


def _quantities(flag: str, text: str, allowed: Sequence[str], needed: Sequence[str] = ()) -> dict[str, float]:
    """`gpu=8,nic=10Gbit/s` as numbers: GPUs, cores, GB, GB/s."""
    from muster.units import parse_gb, parse_gb_per_s

    parsers: dict[str, Any] = {"gpu": float, "cpu": float, "memory_gb": parse_gb, "nic": parse_gb_per_s}
    quantities: dict[str, float] = {}
    problems = []
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in allowed:
            what = f"NAME=QUANTITY is needed, NAME being {', '.join(allowed)}"
            problems.append(Problem(flag, what, found=part.strip()))
            continue
        if name in quantities:
            problems.append(Problem(flag, f"{name} is given twice", found=part.strip()))
        try:
            quantities[name] = parsers[name](value)
        except ValueError as error:
            what = "a number is needed" if parsers[name] is float else str(error)
            problems.append(Problem(flag, what, column=name, found=value))
            quantities[name] = math.nan
        if quantities[name] == 0 and name == "nic":
            problems.append(Problem(flag, "with no bandwidth no gradient arrives", column=name, found=value))
    problems += [
        Problem(flag, f"{name} is needed: {flag} gpu=8,cpu=64,memory_gb=256,nic=10Gbit/s", found=text)
        for name in needed
        if name not in quantities
    ]
    if problems:
        raise BadInput(*problems)
    return quantities
