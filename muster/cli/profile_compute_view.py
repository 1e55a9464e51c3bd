"""How what a profile measured without input is shown: compute by samples, and several workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster import formatting
from muster.formatting import percent, three_figures
from muster.profiling.compute import ComputeFit, ComputeProfile, fit_of
from muster.profiling.model import waits_for_input
from muster.profiling.network_fit import network_fit_of
from muster.profiling.optimistic import Profile
from muster.profiling.rates import Rate
from muster.profiling.workers import WorkersProfile


def doubts_of_compute(profile: Profile) -> list[str]:
    """What is not known of compute, and where the job does not wait for it."""
    compute, most = profile.compute, max(profile.rates)
    if compute is None:
        return [
            "Compute was not measured apart: it was left out, or the job does not report by a muster.training of today."
        ]
    doubts = []
    if waits_for_input(profile):
        doubts.append(
            f"The job waits for its input with {formatting.cores(most)} too: a step takes "
            f"{_milliseconds(profile.rates[most])}, and {_milliseconds(compute.whole)} where one batch is repeated."
        )
    if not compute.elastic:
        doubts.append(
            "How compute grows with the batch was not measured: the script does not share its batch among workers "
            "(run.steps(..., elastic=True), docs/how-to/elastic.md)."
        )
    elif profile.workers is None:
        doubts.append("One worker was measured: the network of this machine is not known.")
    elif profile.workers.failed:
        doubts.append(f"More workers were not measured: the job {profile.workers.failed}".replace("\n", " "))
    if compute.passes > 1:
        doubts.append(
            f"A worker takes a whole batch in {compute.passes} parts (local_batch): what a part costs is in the "
            "seconds of its samples."
        )
    if compute.failed:
        doubts.append(f"Fewer samples were not measured: {compute.failed}".replace("\n", " "))
    return doubts


def compute_table(compute: ComputeProfile, fit: ComputeFit | None) -> Any:
    """A row for each number of samples."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("samples", box=SIMPLE_HEAD)
    for column in ("ms/step", "±", "spread", "windows", "line off by"):
        table.add_column(column, justify="right")
    for samples, rate in compute.rates.items():
        unsure = "" if rate.sure else " (unsure)"
        off = "" if fit is None else f"{100 * fit.off[samples]:+.1f} %"
        table.add_row(
            counted_samples(samples),
            three_figures(1000 / rate.steps_per_s),
            percent(rate.error) + unsure,
            percent(rate.spread),
            str(rate.windows),
            off + (" (not fitted)" if samples == compute.compared else ""),
        )
    return table


def workers_table(workers: WorkersProfile, profile: Profile) -> Any:
    """A row for each number of workers and of their samples."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table, off = Table("workers", box=SIMPLE_HEAD), _off_of(profile)
    for column in ("samples each", "ms/step", "±", "spread", "windows", "law off by"):
        table.add_column(column, justify="right")
    for point, rate in workers.rates.items():
        table.add_row(
            str(point[0]),
            str(point[1]),
            three_figures(1000 / rate.steps_per_s),
            percent(rate.error) + ("" if rate.sure else " (unsure)"),
            percent(rate.spread),
            str(rate.windows),
            (f"{100 * off[point]:+.1f} %" if off else "")
            + (" (not fitted)" if point == workers.compared else ""),
        )
    return table


def compute_document(compute: ComputeProfile) -> dict[str, Any]:
    """All of it, for programs."""
    fit = fit_of(compute)
    points = [
        {
            "samples": samples,
            **vars(rate),
            "fitted": fit is not None and samples != compute.compared,
            "line_off_by": None if fit is None else fit.off[samples],
        }
        for samples, rate in compute.rates.items()
    ]
    others = {name: getattr(compute, name) for name in ("samples", "passes", "elastic", "failed", "seconds")}
    return {**others, "line": None if fit is None else vars(fit.line), "points": points}


def workers_document(workers: WorkersProfile, profile: Profile) -> dict[str, Any]:
    """All of it, for programs."""
    off = _off_of(profile)
    points = [
        {
            "workers": point[0],
            "samples": point[1],
            **vars(rate),
            "fitted": bool(off) and point != workers.compared,
            "law_off_by": off.get(point),
        }
        for point, rate in workers.rates.items()
    ]
    return {
        "cores": workers.cores,
        "failed": workers.failed,
        "seconds": workers.seconds,
        "points": points,
    }


def counted_samples(samples: int) -> str:
    """So many samples; a batch where their number is not known."""
    return formatting.counted(samples, "sample") if samples else "a batch"


def _milliseconds(rate: Rate) -> str:
    return f"{three_figures(1000 / rate.steps_per_s)} ms"


def _off_of(profile: Profile) -> Mapping[tuple[int, int], float]:
    """How far the law of several workers is off; nothing where no line of compute was fitted."""
    fit = network_fit_of(profile)
    return {} if fit is None else fit.off
