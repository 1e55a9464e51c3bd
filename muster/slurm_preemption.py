"""The settings of preemption in the preset `slurm`, from what Slurm says of itself, its partitions and its QOS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

_TYPES = {"preempt/partition_prio": "partition_prio", "preempt/qos": "qos"}
_MODES = ("off", "requeue", "cancel")
_NOTHING = ("", "preempt/none", "(null)")
_NO_TIME = ("", "-1", "none", "00:00:00")
_QOS_HINT = "add the output of sacctmgr -P show qos to the file; no job is preempted"

Seconds = Callable[[str, str], int]
"""Reads a time by the setting's name and its text."""


def qos_of(text: str) -> list[dict[str, str]]:
    """Each QOS of what `sacctmgr -P show qos` printed, if that is in the text; names of columns in lower case."""
    found: list[dict[str, str]] = []
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        names = [cell.lower() for cell in cells]
        if {"name", "preempt"} <= set(names):
            header = names
        elif header and len(cells) == len(header):
            found.append(dict(zip(header, cells, strict=True)))
        else:
            header = []
    return found


def read_preemption(
    values: Mapping[str, str],
    partitions: Sequence[Mapping[str, str]],
    qos: Sequence[Mapping[str, str]],
    seconds: Seconds,
) -> tuple[dict[str, str], list[str]]:
    """The settings that the preset takes, and what it does not simulate; `values` have names in lower case."""
    settings = _tiers(partitions) | _priorities(qos)
    kind = values.get("preempttype", "").lower()
    if kind in _NOTHING:
        return settings, []
    if kind not in _TYPES:
        return settings, [
            f"PreemptType={values['preempttype']} is not simulated; the preset has preempt/none"
        ]
    settings["preempt"] = _TYPES[kind]
    notes: list[str] = []
    mode = _mode("PreemptMode", values.get("preemptmode", ""), notes)
    if values.get("jobrequeue") == "0" and mode == "requeue":
        mode = "cancel"
        notes.append("JobRequeue=0: preempted jobs are cancelled, also those with --requeue")
    settings["preempt_mode"] = mode or "requeue"
    exempt = values.get("preemptexempttime", "")
    if exempt.lower() not in _NO_TIME:
        settings["preempt_exempt_seconds"] = f"{seconds('PreemptExemptTime', exempt)}"
    if kind == "preempt/qos" and not qos:
        notes.append(f"PreemptType=preempt/qos: who may preempt whom is not in the file. Hint: {_QOS_HINT}")
    settings |= _of_qos(qos, seconds, notes)
    if kind == "preempt/partition_prio":
        modes = [(one["partitionname"], one["preemptmode"]) for one in partitions if one.get("preemptmode")]
        read = [(name, _mode(f"PreemptMode of partition {name}", said, notes)) for name, said in modes]
        settings |= _pairs(
            "partition_preempt_mode", [one for one in read if one[1] != settings["preempt_mode"]]
        )
    _note_grace([*partitions, *qos], notes)
    return settings, notes


def _tiers(partitions: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """PriorityTier where it is not 1."""
    tiers = [(one["partitionname"], one.get("prioritytier", "1")) for one in partitions]
    return _pairs("priority_tier", [(name, tier) for name, tier in tiers if tier != "1"])


def _priorities(qos: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Priority of each QOS where it is not 0."""
    found = [(one["name"], one.get("priority", "")) for one in qos]
    return _pairs("qos_priority", [(name, value) for name, value in found if value not in ("", "0")])


def _of_qos(qos: Sequence[Mapping[str, str]], seconds: Seconds, notes: list[str]) -> dict[str, str]:
    """Which QOS each may preempt, its mode and its exempt time."""
    lists = [(one["name"], one["preempt"].replace(",", "/")) for one in qos]
    modes: list[tuple[str, str]] = []
    exempt: list[tuple[str, str]] = []
    for one in qos:
        if one.get("preemptmode", "").lower() not in ("", "cluster", "off"):
            modes.append((one["name"], _mode(f"PreemptMode of QOS {one['name']}", one["preemptmode"], notes)))
        if (time := one.get("preemptexempttime", "")) not in ("", "-1"):
            exempt.append((one["name"], f"{seconds('PreemptExemptTime', time)}"))
    return (
        _pairs("qos_preempt", [(name, below) for name, below in lists if below])
        | _pairs("qos_preempt_mode", modes)
        | _pairs("qos_preempt_exempt", exempt)
    )


def _mode(name: str, said: str, notes: list[str]) -> str:
    """The mode that is simulated; what else is said of it goes to the notes."""
    modes = [mode.strip().lower() for mode in said.split(",") if mode.strip()]
    known = next((mode for mode in modes if mode in _MODES), "")
    for word in modes:
        if word == "suspend":
            notes.append(f"{name}=SUSPEND is not simulated; these jobs are not preempted")
            known = "off"
        elif word not in _MODES:
            notes.append(f"{name}={word.upper()} is not simulated")
    return known


def _note_grace(groups: Iterable[Mapping[str, str]], notes: list[str]) -> None:
    """Say once that preempted jobs get no time to end."""
    if graced := [
        one.get("partitionname") or one["name"]
        for one in groups
        if one.get("gracetime", "0") not in ("0", *_NO_TIME)
    ]:
        notes.append(f"GraceTime of {', '.join(graced)} is not simulated; preempted jobs stop at once")


def _pairs(setting: str, found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A setting that takes names with values; none if there is nothing to say."""
    text = ",".join(f"{name}:{value}" for name, value in found if value)
    return {setting: text} if text else {}
