"""Hold Muster's start estimates against a logged run, beside what squeue --start said at the same moments.

MUSTER_REFERENCE=FOLDER python -m experiments.slurm.start_estimates run1
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from experiments.slurm.site_files import write_site
from experiments.slurm.twin import PRIORITY
from muster.advise import Site, read_site
from muster.advise.would import estimates_at, queue_at

LEAST_ENDED = 20
"""A log from which durations can be drawn."""
ROUNDING_SECONDS = 0.5
"""Of squeue's whole seconds and of the log's."""
CLOSE_SECONDS = 600.0


def estimates(reference: Path, run: str, every: int, draws: int) -> pl.DataFrame:
    """A row a waiting job and moment: its real start, the interval, and what squeue said, in seconds from then."""
    source = reference / "parity/slurm"
    jobs = pl.read_csv(source / f"{run}_jobs.csv")
    samples = pl.read_csv(source / f"expected_start_samples_{run}.csv")
    zero = float(jobs["accepted"][0])
    names = {name: str(number) for number, name in enumerate(jobs["job"].to_list(), 1)}
    site = _site(reference, run, zero)
    real = dict(site.trace.jobs.select("job_id", "start_seconds").iter_rows())
    rows = []
    for moment in sorted(samples["time"].unique().to_list())[::every]:
        now = moment - zero
        state = queue_at(site, now)
        if state.ended.height < LEAST_ENDED or not state.waiting.height:
            continue
        said = samples.filter((pl.col("time") == moment) & (pl.col("state") != "running"))
        squeue = {names[job]: start for job, start in said.select("job", "expected_start").iter_rows()}
        for job, one in estimates_at(site, state, draws).items():
            start = squeue.get(job)
            rows.append((moment, real[job] - now, one.low, one.median, one.high, start and start - moment))
    names_of = ("moment", "real", "low", "median", "high", "squeue")
    return pl.DataFrame(rows, schema=dict.fromkeys(names_of, pl.Float64), orient="row")


def figures(found: pl.DataFrame) -> Mapping[str, float]:
    """Coverage and errors; of squeue where it gave a time."""
    inside = (found["real"] >= found["low"] - ROUNDING_SECONDS) & (
        found["real"] <= found["high"] + ROUNDING_SECONDS
    )
    answered = found.drop_nulls("squeue")
    ours, theirs = found["median"] - found["real"], answered["squeue"] - answered["real"]
    return {
        "answers": found.height,
        "moments": found["moment"].n_unique(),
        "inside the interval": _mean(inside),
        "median width, s": _median(found["high"] - found["low"]),
        "median error, s": _median(ours.abs()),
        "within 10 min": _mean(ours.abs() <= CLOSE_SECONDS),
        "squeue: answers": answered.height,
        "squeue: median error, s": _median(theirs.abs()),
        "squeue: within 10 min": _mean(theirs.abs() <= CLOSE_SECONDS),
    }


def _site(reference: Path, run: str, zero: float) -> Site:
    """The site of a run; shares and the moment of the ticks are not in scontrol's output."""
    settings = {key: PRIORITY[run][key] for key in ("shares",) if key in PRIORITY[run]}
    if "calc_phase_seconds" in PRIORITY[run]:
        settings["calc_phase_seconds"] = f"{(float(PRIORITY[run]['calc_phase_seconds']) - zero) % 60}"
    with tempfile.TemporaryDirectory() as folder:
        write_site(reference, run, Path(folder))
        return read_site(Path(folder) / "sacct.txt", f"{folder}/scontrol.txt", settings=settings)[0]


def _mean(values: pl.Series) -> float:
    return float(values.cast(pl.Float64).to_numpy().mean())


def _median(values: pl.Series) -> float:
    return float(values.quantile(0.5, "linear") or 0.0)


def main() -> None:
    """Print the figures of a run."""
    parser = argparse.ArgumentParser(prog="python -m experiments.slurm.start_estimates", description=__doc__)
    parser.add_argument("run", choices=tuple(PRIORITY), help="The logged run.")
    parser.add_argument(
        "--every", type=int, default=3, metavar="N", help="Use every Nth sample (default: 3, each minute)."
    )
    parser.add_argument(
        "--draws", type=int, default=16, metavar="N", help="Simulations for each sample (default: 16)."
    )
    arguments = parser.parse_args()
    found = figures(
        estimates(Path(os.environ["MUSTER_REFERENCE"]), arguments.run, arguments.every, arguments.draws)
    )
    for name, value in found.items():
        print(f"{name:<26}{value:>10.3g}")


if __name__ == "__main__":
    main()
