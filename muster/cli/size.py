"""`muster size`: how many workers and parameter servers one job should have."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import size_ring, size_servers
from muster.cli.flag_groups import takes_flag_groups
from muster.cli.flags import Json, Overwrite
from muster.cli.outputs import check_chart
from muster.problems import ErrorCollector, InputError, Problem

if TYPE_CHECKING:
    from muster.cluster import Cluster
    from muster.speed.network.models import LayeredModel
    from muster.speed.parameter_server import Layers
    from muster.workload.models import Model

PS, RING = "ps", "ring"
SERVER = "cpu=4,memory_gb=8"
_GPU_TFLOPS = 6.0
_ITERATIONS = 10_000


@dataclass(frozen=True)
class ShapeFlags:
    """How the job's processes exchange gradients, and what each of them needs."""

    sync: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="How gradients are exchanged: ps (parameter servers) or ring (all-reduce)."
        ),
    ] = PS
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="Cluster whose links a ring uses: nodes (4x8gpu) or a cluster file; required for a ring.",
        ),
    ] = None
    worker: Annotated[str, typer.Option(metavar="NEEDS", help="Resources of one worker.")] = (
        "gpu=1,cpu=4,memory_gb=16"
    )
    server: Annotated[
        str | None,
        typer.Option(metavar="NEEDS", help=f"Resources of one parameter server (default: {SERVER})."),
    ] = None

    def check(self, staleness: int) -> None:
        """Refuses what the one kind of job has and the other has not."""
        problems = []
        ring = self.sync == RING
        if self.sync not in (PS, RING):
            what = f"allowed: {PS} (parameter servers) or {RING} (all-reduce)"
            problems.append(Problem("--sync", what, found=self.sync))
        if ring and self.server is not None:
            problems.append(Problem("--server", "a ring has no servers", found=self.server))
        if staleness < 0:
            what = "allowed: a whole number from 0 on"
            problems.append(Problem("--staleness", what, found=staleness))
        elif ring and staleness:
            what = "the workers of a ring wait for each other"
            problems.append(Problem("--staleness", what, found=staleness))
        if self.sync == PS and self.cluster is not None:
            what = "servers go by the nic of --limit; a cluster belongs to --sync ring"
            problems.append(Problem("--cluster", what, found=self.cluster))
        if problems:
            raise InputError(*problems)


@dataclass(frozen=True)
class WorkFlags:
    """How much the job has to do."""

    batch: Annotated[int, typer.Option(metavar="N", help="Samples per iteration, over all workers.")] = 256
    iterations: Annotated[
        int | None,
        typer.Option(
            metavar="N", help=f"Iterations until the job is done (default: {_ITERATIONS:,}, or by --losses)."
        ),
    ] = None
    losses: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV file of step and loss so far, to estimate the iterations left (default: --iterations).",
        ),
    ] = None
    target_loss: Annotated[
        float | None,
        typer.Option(metavar="LOSS", help="Loss at which the job is done; required with --losses."),
    ] = None

    def check(self) -> None:
        """Refuses a job without any work."""
        problems = [
            Problem(flag, "allowed: a whole number from 1 on", found=value)
            for flag, value in (("--batch", self.batch), ("--iterations", self.iterations))
            if value is not None and value < 1
        ]
        if self.iterations is not None and self.losses is not None:
            what = "--losses says how many are left; leave one of the two out"
            problems.append(Problem("--iterations", what, found=self.iterations))
        if problems:
            raise InputError(*problems)

    def iterations_left(self) -> int:
        """Iterations until the target loss by the curve of the losses so far; else those of `--iterations`."""
        from muster.speed.parameter_server.loss_curve import fit_loss_curve, read_losses

        if self.losses is None and self.target_loss is None:
            return _ITERATIONS if self.iterations is None else self.iterations
        if self.target_loss is None:
            raise InputError(Problem("--target-loss", "this flag is missing; --losses requires it"))
        if self.losses is None:
            raise InputError(Problem("--losses", "this flag is missing; --target-loss requires it"))
        steps, measured = read_losses(self.losses)
        left = fit_loss_curve(steps, measured).remaining_steps(self.target_loss, int(steps[-1]))
        if left < 1:
            what = f"the losses have reached it: by their curve no iteration is left after step {int(steps[-1]):,}"
            raise InputError(Problem("--target-loss", what, found=self.target_loss))
        return left


@dataclass(frozen=True)
class LayerFlags:
    """Where the times of the model's layers come from."""

    gpu_tflops: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="TFLOP/s that a GPU sustains on a model known by its layers alone (default: 6).",
        ),
    ] = None
    layers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV file of layer profiles (default: known models).")
    ] = None
    profile_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Samples per batch when --layers was measured (default: its column batch)."
        ),
    ] = None

    def check(self) -> None:
        """Refuses what has no meaning with, or without, --layers."""
        problems = []
        if self.gpu_tflops is not None and self.layers is not None:
            problems.append(self._measured())
        if self.profile_batch is not None and self.layers is None:
            what = "it is of a file of layers; give --layers, or leave it out"
            problems.append(Problem("--profile-batch", what, found=self.profile_batch))
        if problems:
            raise InputError(*problems)

    def _measured(self) -> Problem:
        what = "the times of this model's layers were measured; leave it out"
        return Problem("--gpu-tflops", what, found=self.gpu_tflops)

    def _estimated(self, model: str) -> Layers:
        from muster.speed.parameter_server.architectures import estimated_layers

        return estimated_layers(model, self._tflops)

    @property
    def _tflops(self) -> float:
        return _GPU_TFLOPS if self.gpu_tflops is None else self.gpu_tflops

    def of_parameter_servers(self, model: str) -> Layers:
        """The layers of a model known by name, or of one in a file."""
        from muster.speed.parameter_server.profile import profiled_layers

        if self.layers is None:
            return self._estimated(model)
        return profiled_layers(self.layers, model, self.profile_batch)

    def of_a_ring(self, model: str) -> LayeredModel | Model:
        """A model of a layer file, of a model file or of the registry; else the layers of its definition."""
        from muster.speed.parameter_server.profile import profiled_model
        from muster.speed.parameter_server.ring import layered_model
        from muster.workload.models import find, read_model

        if self.layers is not None:
            return profiled_model(self.layers, model, self.profile_batch)
        known = read_model(Path(model)) if model.endswith(".toml") else find(model)
        if known is not None and self.gpu_tflops is not None:
            raise InputError(self._measured())
        return known or layered_model(model, self._estimated(model))

    def origin_of_a_ring(self, trained: LayeredModel | Model) -> str:
        """A sentence on where the seconds of a ring come from."""
        from muster.speed.network.model_file import origin_of
        from muster.workload.models import Model

        if self.layers is not None:
            return f"layer profile {self.layers}"
        return (
            origin_of(trained)
            if isinstance(trained, Model)
            else f"its layers by their definition, on a GPU of {self._tflops:g} TFLOP/s"
        )


@dataclass(frozen=True)
class AnswerFlags:
    """The forms in which the answer is shown."""

    table: Annotated[
        bool, typer.Option("--table", help="Show a table of completion times around the best.")
    ] = False
    chart: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File to draw completion times into: .svg or .png (default: no chart)."
        ),
    ] = None
    overwrite: Overwrite = False
    as_json: Json = False


@takes_flag_groups()
def size(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="Known model, as resnet50, vgg16 or bert-large, or a model of --layers; for a ring also a model file.",
        ),
    ],
    limit: Annotated[
        str,
        typer.Option(
            metavar="LIMIT", help="Most that the job may have in all; nic is the bandwidth of one server."
        ),
    ],
    *,
    shape: ShapeFlags,
    work: WorkFlags,
    layer_times: LayerFlags,
    staleness: Annotated[
        int, typer.Option(metavar="N", help="Number of updates that an iteration may miss.")
    ] = 0,
    shown: AnswerFlags,
) -> None:
    """Find the best number of workers and parameter servers, or of workers in a ring.

    Example: muster size vgg16 --limit gpu=8,cpu=64,nic=10Gbit/s --table
    """
    from muster.sizing import RESOURCES, sized, sized_ring
    from muster.speed.parameter_server import bounded_staleness

    in_ring = shape.sync == RING
    errors = ErrorCollector()
    errors.of(check_chart, shown.chart, overwrite=shown.overwrite)
    errors.of(work.check)
    errors.of(layer_times.check)
    errors.of(shape.check, staleness)
    iterations = errors.of(work.iterations_left)
    asked = RESOURCES if in_ring else (*RESOURCES, "nic")
    limits = errors.of(_quantities, "--limit", limit, asked, ("gpu",) if in_ring else ("gpu", "nic"))
    worker = errors.of(_quantities, "--worker", shape.worker, RESOURCES)
    if in_ring:
        trained = errors.of(layer_times.of_a_ring, model)
        links = errors.of(_links, shape.cluster)
        errors.settle()
        trained = _on(trained, links)
        ring = sized_ring(trained, work.batch, links, worker, limits, iterations)
        if shown.chart is not None:
            size_ring.draw(ring, model, shown.chart)
        origin = layer_times.origin_of_a_ring(trained)
        answer = size_ring.document(ring, model, links.name, limits, iterations, origin)
        if not shown.as_json:
            size_ring.show(answer, ring, shown.table)
    else:
        server = errors.of(
            _quantities, "--server", SERVER if shape.server is None else shape.server, RESOURCES
        )
        known = errors.of(layer_times.of_parameter_servers, model)
        errors.settle()
        step = bounded_staleness(known, work.batch, limits["nic"], staleness)
        pair = sized(step, work.batch, worker, server, limits, iterations)
        if shown.chart is not None:
            size_servers.draw(pair, model, shown.chart)
        if shown.as_json:
            answer = size_servers.document(pair, model, limits, iterations)
        else:
            size_servers.show(pair, model, limits, iterations, shown.table)
    if shown.as_json:
        print(json.dumps(answer, indent=2))


def _on(trained: LayeredModel | Model, cluster: Cluster) -> LayeredModel | Model:
    """A model of the registry as fast as on the cluster's GPUs."""
    from muster.speed.network.model_file import model_on
    from muster.workload.models import Model

    return model_on(trained, cluster) if isinstance(trained, Model) else trained


def _links(name: str | None) -> Cluster:
    """The cluster of a ring."""
    from muster.cluster.shipped import parse_cluster

    if name is None:
        what = "a ring goes by the links between its workers: give --cluster, such as 4x8gpu or your file"
        raise InputError(Problem("--cluster", what))
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
            what = f"allowed: NAME=QUANTITY, NAME being {', '.join(allowed)}"
            problems.append(Problem(flag, what, found=part.strip()))
            continue
        if name in quantities:
            problems.append(Problem(flag, f"{name} is given twice", found=part.strip()))
        try:
            quantities[name] = parsers[name](value)
        except ValueError as error:
            what = "allowed: a number" if parsers[name] is float else str(error)
            problems.append(Problem(flag, what, column=name, found=value))
            quantities[name] = math.nan
        if quantities[name] == 0 and name == "nic":
            problems.append(Problem(flag, "with no bandwidth no gradient arrives", column=name, found=value))
    problems += [
        Problem(flag, f"{name} is missing. Hint: {flag} gpu=8,cpu=64,memory_gb=256,nic=10Gbit/s", found=text)
        for name in needed
        if name not in quantities
    ]
    if problems:
        raise InputError(*problems)
    return quantities
