"""`muster advise`: what a site's log says could be better. It changes nothing."""

from __future__ import annotations

import os
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.cli.flag_groups import takes_flag_groups
from muster.problems import ErrorCollector, InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.advise import Finding, Site
    from muster.folder_layouts import FolderLayout

_SLURM = "slurm"
_DAYS = 30.0
_WIDTH = 100
_WORTH_A_PROCESS = 200
"""Jobs from which a simulation takes longer than a process takes to start."""


@dataclass(frozen=True)
class SlurmSource:
    """Where the log and the cluster come from, if not from files."""

    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="Source in place of files: slurm asks this machine's Slurm (default: files).",
        ),
    ] = None
    days: Annotated[
        float | None,
        typer.Option(
            metavar="N", min=0.1, help="Days of the log to ask for; needs --from slurm (default: 30)."
        ),
    ] = None

    def command(self, log: Path, flags: Sequence[tuple[str, str]]) -> str:
        """The command as it is typed; files that Slurm wrote are asked for again."""
        from muster.formatting import command_lines

        if self.source is None:
            return command_lines("advise", str(log), flags)
        days = [] if self.days is None else [("--days", f"{self.days:g}")]
        own = [(name, value) for name, value in flags if name != "--cluster"]
        return command_lines("advise", f"--from={self.source}", [*days, *own])

    def check(self) -> None:
        """Refuses days of a log that is a file."""
        if self.days is not None and self.source is None:
            what = "a log that is a file is read whole; allowed: --from slurm --days N"
            raise InputError(Problem("--days", what, found=self.days))


@dataclass(frozen=True)
class TwinFlags:
    """The scheduler that stands for the site's own in simulations."""

    slurm_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Output of scontrol show config, or slurm.conf (default: what is in the cluster's file).",
        ),
    ] = None
    scheduler: Annotated[
        str,
        typer.Option(metavar="NAME", help="Scheduler that stands for the site's own, as in muster simulate."),
    ] = "slurm"
    settings: flags.Settings = None

    def typed(self, twin_jobs: int) -> list[tuple[str, str]]:
        """These flags as they are typed, with how many jobs are simulated."""
        config = [] if self.slurm_config is None else [("--slurm-config", str(self.slurm_config))]
        chosen = [("--set", one) for one in self.settings or ()]
        return [("--scheduler", self.scheduler), *config, *chosen, ("--twin-jobs", str(twin_jobs))]


SiteCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        help="File of scontrol show config and scontrol show node, or a cluster as in muster simulate "
        "(default: with --from, this machine's Slurm).",
    ),
]


@takes_flag_groups()
def advise(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOG",
            help="Output of sacct -P or --json, or any trace with starts (default: with --from).",
        ),
    ] = None,
    cluster: SiteCluster = None,
    *,
    asked: SlurmSource,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for one page a finding.")] = Path(
        "muster-advice"
    ),
    overwrite: flags.Overwrite = False,
    twin_jobs: Annotated[
        int, typer.Option(metavar="N", min=10, help="Newest jobs of the log that simulations take.")
    ] = 3000,
    twin: TwinFlags,
    as_json: flags.Json = False,
) -> None:
    """Find what a site could do better, from its log alone. Nothing on the cluster is changed.

    Example: muster advise sacct.txt --cluster scontrol.txt
    """
    from muster.advise import QUESTIONS, read_site
    from muster.cli.advise_page import write_advice_page
    from muster.cli.progress import noted_if_slow
    from muster.files import write_folder_aside
    from muster.formatting import as_json_text
    from muster.report.advice import write_advice

    errors = ErrorCollector()
    errors.of(asked.check)
    chosen = errors.of(flags.parse_settings, twin.settings or [])
    errors.settle()
    with write_folder_aside(out, _layout(asked) if overwrite else None) as folder:
        log, cluster = asked_files("muster advise", asked, log, cluster, folder)
        config = twin.slurm_config
        site, notes = read_site(
            log,
            cluster,
            slurm_config=config,
            settings=chosen,
            scheduler=twin.scheduler,
            twin_jobs=twin_jobs,
        )
        for source, note in notes:
            print(f"{source}: {note}", file=sys.stderr)
        site = _with_trials(site)
        findings = []
        for number, (name, judge) in enumerate(QUESTIONS.items(), 1):
            with noted_if_slow(f"{name}: question {number} of {len(QUESTIONS)}"):
                findings.append(judge(site))
        pages = [one.markdown() for one in findings]
        answer = write_advice(folder, [note for _, note in notes], [one.to_dict() for one in findings], pages)
        title = f"Advice: {site.trace.source} on {site.cluster.name}"
        command = asked.command(log, [("--cluster", cluster), *twin.typed(twin_jobs), ("--out", str(out))])
        missing = write_advice_page(folder, title, findings, command)
    if missing:
        print(f"no page: {missing}", file=sys.stderr)
    if as_json:
        print(as_json_text(answer), end="")
    else:
        _print(findings, site, out)


def _layout(asked: SlurmSource) -> FolderLayout:
    """What this command writes; a log and a cluster only where Slurm says them."""
    from muster.advise import QUESTIONS
    from muster.folder_layouts import ADVICE, SLURM_MONTH
    from muster.report.advice import page_name

    pages = (page_name(number, name) for number, name in enumerate(QUESTIONS, 1))
    return ADVICE.also(*pages, *(SLURM_MONTH.files if asked.source == _SLURM else ()))


def _with_trials(site: Site) -> Site:
    """The site with all simulations done, several at a time; a small log is simulated where it is asked for."""
    from muster.advise import trials_of
    from muster.cli.progress import noted_if_slow, progress_bars
    from muster.formatting import counted
    from muster.parallel import run_all

    jobs = len(site.newest.jobs)
    trials = trials_of(site) if jobs >= _WORTH_A_PROCESS else {}
    if not trials:
        return site
    what = f"{counted(len(trials), 'simulation')} of the newest {counted(jobs, 'job')} take a while"
    with (
        noted_if_slow(what),
        progress_bars(list(trials), max(trial.jobs for trial in trials.values())) as show,
    ):
        return replace(site, simulated=run_all(trials, os.cpu_count() or 1, show))


def asked_files(
    command: str, asked: SlurmSource, log: Path | None, cluster: str | None, folder: Path
) -> tuple[Path, str]:
    """The log and the cluster that are named, or what the Slurm of this machine says, written into a folder."""
    from muster.advise.read import read_running_slurm

    if asked.source is None:
        if log is None or cluster is None:
            what = "allowed: LOG and --cluster CLUSTER, or --from slurm"
            raise InputError(Problem(command, what))
        return log, cluster
    if asked.source != _SLURM:
        raise InputError(Problem("--from", "allowed: slurm", found=asked.source))
    if log is not None or cluster is not None:
        what = "it asks Slurm itself; allowed: --from slurm without LOG and --cluster"
        raise InputError(Problem("--from", what, found=asked.source))
    return read_running_slurm(folder, _DAYS if asked.days is None else asked.days)


def _print(findings: Sequence[Finding], site: Site, out: Path) -> None:
    """Findings first, then what is well, then what the log cannot say."""
    from muster.advise import FOUND, NOT_JUDGED, NOTHING
    from muster.formatting import counted

    ended = counted(site.trace.jobs.height, "job")
    print(f"{ended} with GPUs ended; {site.cluster.name} has {counted(site.cluster.total_gpus, 'GPU')}.")
    for status in (FOUND, NOTHING, NOT_JUDGED):
        for finding in findings:
            if finding.status != status:
                continue
            print(textwrap.fill(f"{finding.name}: {finding.title}", _WIDTH, subsequent_indent="  "))
            if status == FOUND:
                saving = "not known from this log" if finding.saving is None else str(finding.saving)
                print(f"  saving: {saving}; rests on {counted(finding.jobs, 'job')}")
                for advice in finding.what_to_do[:1]:
                    print(textwrap.fill(advice, _WIDTH, initial_indent="  ", subsequent_indent="  "))
    print(f"Evidence, tables and what to do: {out}")
