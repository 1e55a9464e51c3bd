"""Prints how well the analytic form fits each shipped model: `python -m experiments.fitting.input_fit_table`."""

from __future__ import annotations

from experiments.fitting.input_analytic import AnalyticFit, fit_analytic, measured_points
from muster.workload.models import Model, synergy_models

STORAGE_GB_PER_S = 0.0625
"""One GPU's share of Synergy's server (8 GPUs, 500 MB/s)."""
MEMORY_GB_PER_S = 10.0
"""Assumed; the published figures do not state it, and at this speed it never is the limit."""


def fit_shipped(model: Model) -> AnalyticFit:
    """The fit under Synergy's storage bandwidth."""
    return fit_analytic(
        measured_points(model),
        batch=model.batch,
        storage_gb_per_s=STORAGE_GB_PER_S,
        memory_gb_per_s=MEMORY_GB_PER_S,
    )


def main() -> None:
    """One line a model: fitted parameters, root mean square and worst error of the seconds."""
    row = "{:<16}{:>10}{:>8}{:>8}{:>9}{:>8}{:>8}  {}"
    print(row.format("model", "samples/s", "CPU ms", "KB", "data GB", "rms", "worst", "limits seen"))
    for model in synergy_models().values():
        fit = fit_shipped(model)
        data = fit.form.dataset
        cells = [
            model.name,
            f"{fit.form.compute_samples_per_s:.0f}",
            f"{fit.form.cpu_seconds_per_sample * 1e3:.2f}",
            f"{data.sample_gb * 1e6:.0f}" if data else "-",
            f"{data.size_gb:.1f}" if data else "-",
            f"{fit.rms_log_error:.1%}",
            f"{fit.worst_ratio - 1:.1%}",
            ", ".join(fit.seen),
        ]
        print(row.format(*cells))


if __name__ == "__main__":
    main()
