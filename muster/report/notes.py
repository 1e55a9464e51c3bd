"""What a reader must know beside the figures: cleaned rows, rules, knowledge, jobs left out, the command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

# Settings of run.json that are flags of the command line.
FLAGS = {"round_seconds": "--round", "restart_cost_seconds": "--restart-cost", "measure": "--measure"}


def notes(
    names: Sequence[str], summaries: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Sentences, most important first."""
    found = []
    for name, summary in zip(names, summaries, strict=True):
        for kind, meaning in (("unfinished", "did not finish"), ("refused", "were refused")):
            if summary[kind]:
                share = f"{summary[kind]:,} of {summary['jobs']:,} jobs"
                found.append(f"{name}: {share} {meaning}; times of jobs leave them out.")
    first = summaries[0]
    if first["jobs"] < first["jobs_in_record"]:
        found.append(
            f"Times of jobs count the {first['jobs']:,} measured of {first['jobs_in_record']:,} jobs; "
            "use of the cluster counts all."
        )
    found += [_sentence(f"Trace: {note}") for note in dict.fromkeys(_trace_notes(runs))]
    found += _shared("Rules", names, [_rules(run["rules"]) for run in runs])
    knowledge = [str(run["knowledge"]) for run in runs]
    found += _shared("What schedulers know of the work left", names, knowledge)
    if len(set(knowledge)) > 1:
        found.append("Schedulers that know different things are not rivals: compare within a class.")
    return found


def command(runs: Sequence[Mapping[str, Any]]) -> str:
    """The command that makes these runs again, from the inputs and settings of the first; a flag a line."""
    first = runs[0]
    flags = [("--cluster", first["cluster"]["name"])]
    flags += [("--scheduler", run["scheduler"]["name"]) for run in runs]
    settings = first.get("settings") or {}
    flags += [(flag, settings[name]) for name, flag in FLAGS.items() if settings.get(name) is not None]
    flags += [("--rules", first["rules"].get("name", "exact")), ("--knowledge", first["knowledge"])]
    flags.append(("--seed", first.get("seed", 0)))
    if len(runs) == 1:
        own = first["scheduler"].get("settings") or {}
        flags += [("--set", f"{name}={_as_typed(value)}") for name, value in own.items()]
    flags.append(("--out", "out"))
    verb = "compare" if len(runs) > 1 else "simulate"
    lines = [shlex.join(["muster", verb, str(first["trace"]["source"])])]
    lines += [shlex.join([flag, _as_typed(value)]) for flag, value in flags]
    return " \\\n  ".join(lines)


def provenance(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What made one run, as pairs of a name and a value."""
    scheduler = run["scheduler"]
    pairs = [("scheduler", str(scheduler["name"]))]
    pairs += [(str(key), _as_typed(value)) for key, value in (scheduler.get("settings") or {}).items()]
    pairs += [
        (str(key).replace("_", " "), _as_typed(value))
        for key, value in (run.get("settings") or {}).items()
        if value is not None
    ]
    pairs.append(("seed", str(run.get("seed", 0))))
    pairs.append(("trace", str(run["trace"].get("sha256") or "no checksum")))
    pairs.append(("muster", str(run.get("muster_version") or "unknown version")))
    return pairs


def _trace_notes(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(note) for run in runs for note in run["trace"].get("notes") or ()]


def _rules(rules: Mapping[str, Any]) -> str:
    details = [f"{str(key).replace('_', ' ')}: {value}" for key, value in rules.items() if key != "name"]
    return "; ".join([str(rules.get("name", "unnamed")), *details])


def _shared(subject: str, names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """One sentence where all runs agree, else one a run."""
    if len(set(texts)) == 1:
        return [_sentence(f"{subject}: {texts[0]}")]
    return [_sentence(f"{subject} of {name}: {text}") for name, text in zip(names, texts, strict=True)]


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _as_typed(value: Any) -> str:
    """As it is typed on the command line: 300.0 is 300."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
