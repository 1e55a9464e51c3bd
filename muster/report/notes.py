"""What a reader must know beside the figures: cleaned rows, rules, knowledge, jobs left out, the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from muster import formatting
from muster.report.calibration import calibration
from muster.report.finding import jct_bound_text
from muster.report.run_notes import notes_by_run

FLAGS: Mapping[str, tuple[str, object]] = {
    "round_seconds": ("--round", None),
    "round_origin": ("--round-origin", 0.0),
    "restart_cost_seconds": ("--restart-cost", None),
    "resize_restarts": ("--resize-restarts", False),
    "release_seconds_per_gpu": ("--release-seconds-per-gpu", 0.0),
    "measure": ("--measure", None),
    "failures": ("--failures", None),
    "checkpoint_seconds": ("--checkpoint", 3600.0),
    "end_at_limit": ("--end-at-limit", False),
    "skip_impossible": ("--skip-impossible", False),
    "certify": ("--certify", False),
    "network": ("--network", "auto"),
    "congestion": ("--congestion", 0.0),
    "contention": ("--contention", False),
}
"""By setting of run.json its flag of the command line, and the value that it has without the flag; None: it varies."""


def notes(
    names: Sequence[str], summaries: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Sentences, most important first."""
    found = []
    for name, summary in zip(names, summaries, strict=True):
        for kind, meaning in (
            ("unfinished", "did not finish"),
            ("timed_out", "reached their time limit"),
            ("failed", "failed"),
            ("cancelled", "were cancelled"),
            ("refused", "were refused"),
        ):
            if summary[kind]:
                total = formatting.counted(summary["jobs"] + summary["refused"], "job")
                share = f"{summary[kind]:,} of {total}"
                found.append(f"{name}: {share} {meaning}; times of jobs leave them out.")
    first = summaries[0]
    if first["jobs"] < first["jobs_in_record"]:
        found.append(
            f"Times of jobs count the {first['jobs']:,} measured of "
            f"{formatting.counted(first['jobs_in_record'], 'job')}; "
            "use of the cluster counts all."
        )
    found += [
        _sentence(f"Trace: {note}")
        for note in notes_by_run(names, map(_notes_of, runs))
        if not note.startswith(_NO_NETWORK_MODEL)
    ]
    found += _shared("Rules", names, [_rules(run["rules"]) for run in runs])
    moments = [
        (name, text) for name, text in zip(names, map(_slowest_moment, summaries), strict=True) if text
    ]
    if moments:
        found += _shared("Slowest moment of any job", *zip(*moments, strict=True))
    bounds = [(name, text) for name, text in zip(names, map(jct_bound_text, summaries), strict=True) if text]
    if bounds:
        found += _shared("The whole run", *zip(*bounds, strict=True))
    if len({str(run["knowledge"]) for run in runs}) > 1:
        found.append("Schedulers that know different things are not rivals: compare within a class.")
    return found


def assumptions(
    names: Sequence[str], runs: Sequence[Mapping[str, Any]], jobs: pl.DataFrame
) -> list[tuple[str, str]]:
    """What the answer rests on, as pairs of a subject and what is assumed of it."""
    costs = [_restart_cost(run["settings"]) for run in runs]
    knowledge = [_KNOWLEDGE.get(str(run["knowledge"]), str(run["knowledge"])) for run in runs]
    named = jobs["model"].fill_null("") != ""
    unnamed = jobs.height - int(named.sum())
    sensitivity = (
        f"unknown for {unnamed:,} of {formatting.counted(jobs.height, 'job')}: no model is named"
        if unnamed
        else "every job names its model"
    )
    without = [
        note
        for note in dict.fromkeys(note for run in runs for note in _notes_of(run))
        if note.startswith(_NO_NETWORK_MODEL)
    ]
    return [
        ("Cost of an interruption", _each(names, costs)),
        ("Schedulers know of the work left", _each(names, knowledge)),
        ("Sensitivity to CPUs, memory and network", "; ".join([sensitivity, *without])),
    ]


def against_log(name: str, jobs: pl.DataFrame, recorded: pl.DataFrame) -> tuple[str, str]:
    """How far the first run repeats the recorded starts."""
    figures = calibration(recorded, [jobs])
    log, mean = figures["recorded_wait_seconds"]["mean"], figures["simulated_wait_seconds"]["mean"]
    if not figures["jobs"] or log is None or mean is None:
        return "Simulation against the log", "no job started in both"
    error = formatting.duration(figures["start_error_p50_seconds"])
    text = (
        f"mean wait {formatting.duration(log)} in the log and {formatting.duration(mean)} under {name} "
        f"({formatting.change(mean, log)}); half of the starts are within {error}"
    )
    return "Simulation against the log", text


_NO_NETWORK_MODEL = "no network model for "
"""How the simulator's note on models without one begins."""
_KNOWLEDGE = {
    "oracle": "exactly how long each job runs (oracle)",
    "limit": "the time limits that jobs state",
    "declared": "what their owners state",
    "none": "nothing",
}


def _each(names: Sequence[str], texts: Sequence[str]) -> str:
    """The text that all runs share, else each with its run."""
    if len(set(texts)) == 1:
        return texts[0]
    return "; ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True))


def _restart_cost(settings: Mapping[str, Any]) -> str:
    """What a job loses when it is stopped, moved or restarted in this run."""
    seconds = settings.get("restart_cost_seconds")
    if seconds is None:
        return "as measured"
    return (
        f"{seconds:g} s, unless the trace states a cost for a job"
        if seconds
        else "none, preemptions are free"
    )


def _slowest_moment(summary: Mapping[str, Any]) -> str:
    """Synergy's promise as this run kept it, on the machines used and on the slowest that were allowed."""
    moment = summary["slowest_moment"]
    if moment["of_share"] is None:
        return ""
    parts = []
    for name, whose in (("share", "its machines"), ("slowest_share", "the slowest machines it may use")):
        below = moment[f"jobs_below_{name}"]
        who = f" ({formatting.counted(below, 'job')} below it)" if below else ""
        parts.append(
            f"{moment[f'of_{name}']:.2f} times its speed with the GPU-proportional share of {whose}{who}"
        )
    return ", ".join(parts)


def command(runs: Sequence[Mapping[str, Any]]) -> str:
    """The command that makes these runs again, from the inputs and settings of the first; a flag a line."""
    first = runs[0]
    named = first.get("named") or {}
    clusters = [str((run.get("named") or {}).get("cluster") or run["cluster"]["name"]) for run in runs]
    flags = [("--cluster", cluster) for cluster in dict.fromkeys(clusters)]
    flags += [(f"--{what}", str(named[what])) for what in ("map", "models", "layers") if what in named]
    flags += [("--scheduler", name) for name in dict.fromkeys(str(run["scheduler"]["name"]) for run in runs)]
    settings = first.get("settings") or {}
    flags += [
        (flag, _flag_value(settings[name]))
        for name, (flag, default) in FLAGS.items()
        if settings.get(name) is not None and settings[name] != default
    ]
    flags += [("--rules", str(first["rules"].get("name", "exact"))), ("--knowledge", str(first["knowledge"]))]
    flags.append(("--seed", str(first.get("seed", 0))))
    flags += [("--set", f"{name}={value}") for name, value in _settings_alike(runs)]
    flags.append(("--out", "out"))
    verb = "compare" if len(runs) > 1 else "simulate"
    return formatting.command_lines(verb, str(first["trace"]["source"]), flags)


def provenance(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What made one run, as pairs of a name and a value."""
    settings = run.get("settings") or {}
    return [
        ("scheduler", str(run["scheduler"]["name"])),
        *_scheduler_settings(run),
        *(
            (str(name).replace("_", " "), formatting.typed(value))
            for name, value in settings.items()
            if _is_set(value)
        ),
        ("seed", str(run.get("seed", 0))),
        ("trace", str(run["trace"]["source"])),
        ("SHA-256 of the trace", str(run["trace"].get("sha256") or "not recorded")),
        *((what, str(name)) for what, name in (run.get("named") or {}).items()),
        ("muster", str(run.get("muster_version") or "unknown version")),
    ]


def _settings_alike(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The settings of the schedulers, as `--set` takes them, without those that two of them have set differently."""
    leaves = [leaf for run in runs for leaf in _settings(run)]
    first = dict(reversed(leaves))
    different = {name for name, value in leaves if value != first[name]}
    alike = {name: value for name, value in leaves if name not in different and _is_set(value)}
    return [(name, formatting.typed(value)) for name, value in alike.items()]


def _scheduler_settings(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The scheduler's settings that are set, as `--set` takes them."""
    return [(name, formatting.typed(value)) for name, value in _settings(run) if _is_set(value)]


def _settings(run: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The scheduler's settings; those of a part as `PART.SETTING`."""
    leaves: list[tuple[str, Any]] = []
    for name, value in (run["scheduler"].get("settings") or {}).items():
        if isinstance(value, Mapping):
            leaves += [(f"{name}.{inner}", setting) for inner, setting in value.items()]
        else:
            leaves.append((str(name), value))
    return leaves


def _is_set(value: Any) -> bool:
    return value is not None and value not in ([], (), {}, "")


def _flag_value(value: Any) -> str:
    """As a flag of the run takes it: two values joined by a colon, nothing where the flag alone says it."""
    if isinstance(value, Mapping):
        return _flag_value(list(value.values()))
    if isinstance(value, list | tuple):
        return ":".join(map(formatting.typed, value))
    return "" if value is True else formatting.typed(value)


def _notes_of(run: Mapping[str, Any]) -> list[str]:
    return [str(note) for note in run["trace"].get("notes") or ()]


def _rules(rules: Mapping[str, Any]) -> str:
    details = [
        f"{str(key).replace('_', ' ')}: {str(value).rstrip('.')}"
        for key, value in rules.items()
        if key != "name"
    ]
    return "; ".join([str(rules.get("name", "unnamed")), *details])


def _shared(subject: str, names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """One sentence where all runs agree, else one a run."""
    if len(set(texts)) == 1:
        return [_sentence(f"{subject}: {texts[0]}")]
    return [_sentence(f"{subject} of {name}: {text}") for name, text in zip(names, texts, strict=True)]


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
