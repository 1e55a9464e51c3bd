"""A cluster from what a user types: a shipped name, a one-line form, or a file.

The one-line form is machines x GPUs and what each machine has beside them: `16x8gpu,24cpu,500gb`, with the
GPU's type for `gpu` (`16x8v100`), storage bandwidth if wanted (`0.5gb/s`), several kinds joined by `+`
(`4x8gpu,48cpu+2x4gpu,64cpu`). A resource that no kind states: 3 cores, 62.5 GB, 62.5 MB/s a GPU, as Synergy's
servers. One that only some kinds state is refused, because the line does not show what the others have.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from muster.cluster.cluster_file import (
    FIRST_RACK,
    MAX_MACHINES,
    NodeType,
    assumed,
    cluster_from_toml,
    machine,
)
from muster.cluster.description import ANY_GPU, MAX_GPUS_PER_NODE, Cluster, Links, Node
from muster.cluster.more_nodes import joined
from muster.cluster.slurm_nodes import read_slurm_site
from muster.files import read_text
from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.units import parse_gb, parse_gb_per_s

FLAG = "--cluster"

_ONE_LINE = re.compile(r"\d+x\d+[a-z].*", re.IGNORECASE)
_MACHINES = re.compile(r"(\d+)x(\d+)([a-z][a-z0-9_-]*)", re.IGNORECASE)
_CPUS = re.compile(r"(\d+(?:\.\d+)?)cpus?", re.IGNORECASE)
_RATE = re.compile(r"/s$|bps$", re.IGNORECASE)
_SLURM_NODE = re.compile(r"^NodeName=", re.MULTILINE)
_SLURM_SETTING = re.compile(r"^\s*(?:SchedulerParameters|PriorityType)\s*=|^PartitionName=", re.MULTILINE)
SETTINGS_LEFT_OUT = (
    "a cluster has the nodes, partitions and topology of this file, not its scheduling settings. "
    "Hint: muster calibrate --slurm-config FILE reads them and prints them as --set for the scheduler slurm"
)
"""The note of a cluster whose file has settings of Slurm's scheduler."""
_ADDED = " + "
_IN_PARTITION = re.compile(r"(?P<nodes>.*?)(?: +in +(?P<partition>\S+))?")
_TYPE_WORDS = ("gpu", "gpus", "tpu", "npu", "ipu", "xpu")
"""Types that resemble `gpu` and are none of its misspellings."""
_RESOURCES = {"cpus": "CPUs", "memory_gb": "memory", "storage_gb_per_s": "storage"}
_FOLDER = files("muster.cluster") / "shipped_files"


@cache
def shipped_names() -> tuple[str, ...]:
    """The clusters that come with Muster."""
    names = [entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml")]
    return tuple(sorted(names, key=lambda name: [(len(word), word) for word in name.split("-")]))


def parse_cluster(text: str) -> Cluster:
    """The cluster that a shipped name, a one-line form or a file describes.

    With nodes added: `now.toml + 8x8h100`, or `now.toml + 8x8h100 in train` for one of its partitions.
    """
    cluster, *added = text.split(_ADDED)
    if added and not Path(text).exists() and not _ONE_LINE.fullmatch(cluster):
        more = _IN_PARTITION.fullmatch(_ADDED.join(added))
        if more is None or not _ONE_LINE.fullmatch(more["nodes"]):
            what = "allowed behind a cluster and +: nodes such as 8x8h100,96cpu,1tb, and in PARTITION"
            raise InputError(Problem(FLAG, what, found=_ADDED.join(added)))
        return joined(parse_cluster(cluster), _from_one_line(more["nodes"]), text, more["partition"], FLAG)
    if text in shipped_names():
        toml = (_FOLDER / f"{text}.toml").read_text(encoding="utf-8")
        return cluster_from_toml(toml, where=f"{text}.toml", name=text)
    if _ONE_LINE.fullmatch(text) and not Path(text).exists():
        return _from_one_line(text)
    if text and (text.endswith(".toml") or "/" in text or Path(text).exists()):
        return _from_file(Path(text))
    hint = did_you_mean(text, shipped_names(), cutoff=0.4)
    names = ", ".join(shipped_names())
    what = f"allowed: a file, a line such as 16x8gpu,24cpu,500gb, or a shipped name: {names}"
    raise InputError(Problem(FLAG, with_hint(what, hint), found=text))


def _from_file(path: Path) -> Cluster:
    """The cluster of a cluster file, or of what Slurm printed about its nodes."""
    text = read_text(path)
    if _SLURM_NODE.search(text):
        site = read_slurm_site(text, str(path), path.stem)
        notes = [*site.notes, *([SETTINGS_LEFT_OUT] if _SLURM_SETTING.search(text) else [])]
        return replace(site.cluster, notes=tuple(f"{path}: {note}" for note in notes))
    return cluster_from_toml(text, str(path), path.stem)


def _from_one_line(text: str) -> Cluster:
    problems: list[Problem] = []
    kinds: list[tuple[str, int, NodeType]] = []
    for part in text.split("+"):
        head, *extras = (word.strip() for word in part.split(","))
        amounts, wrong = _amounts(extras)
        problems += [*_wrong_head(head), *wrong]
        if not problems:
            match = _MACHINES.fullmatch(head)
            assert match is not None
            gpu_type = ANY_GPU if match[3].lower() == "gpus" else match[3].upper()
            kind = NodeType.model_validate({"gpus": int(match[2]), "gpu_type": gpu_type, **amounts})
            kinds.append((head, int(match[1]), kind))
    problems += _stated_by_some(kinds)
    if problems:
        raise InputError(*problems)
    links = Links()
    nodes: list[Node] = []
    for _, count, kind in kinds:
        names = [f"node-{len(nodes) + at}" for at in range(count)]
        nodes += [machine(kind, f"{kind.gpus}x{kind.gpu_type}", name, 0, links) for name in names]
    return Cluster(text, tuple(nodes), (FIRST_RACK,), links, assumed(kind for *_, kind in kinds))


def _wrong_head(head: str) -> list[Problem]:
    """What is wrong with `MACHINESxGPUS`, the count of machines, GPUs and their type."""
    match = _MACHINES.fullmatch(head)
    if match is None:
        return [Problem(FLAG, "allowed: machines x GPUs, such as 16x8gpu or 16x8v100", found=head)]
    problems = []
    if not 1 <= int(match[1]) <= MAX_MACHINES:
        problems.append(Problem(FLAG, f"allowed: 1 to {MAX_MACHINES} machines", found=head))
    if not 1 <= int(match[2]) <= MAX_GPUS_PER_NODE:
        problems.append(Problem(FLAG, f"allowed: 1 to {MAX_GPUS_PER_NODE} GPUs a machine", found=head))
    word = match[3].lower()
    letters = word.rstrip("0123456789")
    swapped = letters != "gpu" and sorted(letters) == sorted("gpu")
    resembles = swapped or (word.isalpha() and did_you_mean(word, ["gpu"]))
    if re.match(r"x\d", word):
        problems.append(Problem(FLAG, "allowed: machines x GPUs, such as 16x8gpu or 16x8v100", found=head))
    elif word not in _TYPE_WORDS and resembles:
        what = f"{match[3]} is no known type of GPU; a cluster file takes any type"
        meant = f"did you mean {match[1]}x{match[2]}gpu?"
        problems.append(Problem(FLAG, with_hint(what, meant), found=head))
    return problems


def _stated_by_some(kinds: list[tuple[str, int, NodeType]]) -> list[Problem]:
    """A problem for each kind of node that leaves out a resource which another kind states."""
    problems = []
    for head, _, kind in kinds:
        missing, stating = [], ""
        for field, name in _RESOURCES.items():
            others = [other for other, _, one in kinds if getattr(one, field) is not None]
            if others and getattr(kind, field) is None:
                missing.append(f"no {name}")
                stating = stating or others[0]
        if missing:
            what = f"states {' and '.join(missing)}, but {stating} does; state it for each kind or for none"
            problems.append(Problem(FLAG, what, found=head))
    return problems


def _amounts(parts: list[str]) -> tuple[dict[str, float], list[Problem]]:
    """What one machine has beside its GPUs, by field of `NodeType`; and what is wrong with the parts."""
    amounts: dict[str, float] = {}
    problems = []
    for part in parts:
        field, amount = _amount(part)
        if amount <= 0:
            what = "allowed: more than 0 and written such as 24cpu, 500gb or 0.5gb/s"
            problems.append(Problem(FLAG, what, found=part))
        elif field in amounts:
            problems.append(Problem(FLAG, f"{field} is given twice for the same machines", found=part))
        amounts[field] = amount
    return amounts, problems


def _amount(word: str) -> tuple[str, float]:
    """The field that a word is for and its value, 0 if it is none."""
    if cpus := _CPUS.fullmatch(word):
        return "cpus", float(cpus[1])
    field, parse = ("storage_gb_per_s", parse_gb_per_s) if _RATE.search(word) else ("memory_gb", parse_gb)
    try:
        return field, parse(word) if word[-1:].isalpha() else 0.0
    except ValueError:
        return field, 0.0
