"""What a Slurm site states about partitions, QOS, priorities and reservations that the preset `slurm` does not have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_NOTHING = frozenset({"", "(null)", "all", "global", "infinite", "n/a", "no", "none", "unlimited", "-1"})
"""Values in lower case by which Slurm says that there is no limit."""
_DEFAULTS: Mapping[str, Collection[str]] = {
    "minnodes": ("0", "1"),
    "overtimelimit": ("0",),
    "state": ("up",),
    "lln": ("0",),
    "factor": ("1.000000", "1"),
}
"""More values without effect, by the name of the setting in lower case."""
_OF_PARTITIONS = frozenset(
    {
        *("partitionname", "nodes", "default", "priorityjobfactor", "prioritytier"),  # Honoured.
        *("preemptmode", "gracetime", "tresbillingweights"),  # Honoured, or named on their own.
        # What a log says of each job, and what starts no job sooner or later.
        *("defaulttime", "defcpupergpu", "defmempercpu", "defmempergpu", "defmempernode", "jobdefaults"),
        *("allocnodes", "alternate", "cpubind", "disablerootjobs", "hidden", "rootonly"),
        *("totalcpus", "totalnodes", "tres", "resumetimeout", "suspendtime", "suspendtimeout"),
        "powerdownonidle",
    }
)
"""Settings of partitions that are read, and those without effect here; any other is named."""
_OF_QOS = frozenset(
    {"name", "id", "description", "priority", "preempt", "preemptmode", "preemptexempttime", "gracetime"}
)
_SIMULATED_PRIORITY_FLAGS = ("", "(null)", "fair_tree", "none")
_OF_LIMITS = frozenset({"limits", "qos", "safe"})
"""Words of AccountingStorageEnforce by which Slurm keeps to limits of accounts and QOS."""
_OF_SELECTION = ("CR_LLN", "CR_PACK_NODES", "LL_SHARED_GRES", "MULTIPLE_SHARING_GRES_PJ")
"""Words of SelectTypeParameters that choose nodes."""
_RESERVATION = re.compile(r"^ReservationName=(\S+)", re.MULTILINE)
_INCLUDED = re.compile(r"^\s*include\s+(\S+)", re.MULTILINE | re.IGNORECASE)


def not_simulated(
    text: str,
    values: Mapping[str, str],
    partitions: Sequence[Mapping[str, str]],
    qos: Sequence[Mapping[str, str]],
) -> Iterator[str]:
    """Yield what the text of a site states beside scheduling parameters and preemption, and no simulation goes by.

    `values`, `partitions` and `qos` have names in lower case, as they were read from the text.
    """
    for path in _INCLUDED.findall(text):
        hint = "Hint: take the output of scontrol show config and scontrol show partition"
        yield f"Include {path} is not followed: what is in it is not known. {hint}"
    yield from _limits("partitions", _stated(partitions, "partitionname", _OF_PARTITIONS), text)
    yield from _limits("QOS", _stated(qos, "name", _OF_QOS), text)
    yield from _of_the_cluster(values, qos)
    yield from _of_priorities(values, partitions)
    if names := _RESERVATION.findall(text):
        yield f"reservations are not simulated: {', '.join(names)}"


def _stated(
    groups: Iterable[Mapping[str, str]], key: str, known: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """Each setting that limits something: of which group, its name and its value."""
    for one in groups:
        for name, value in one.items():
            default = _DEFAULTS.get("factor" if name.endswith("factor") else name, ())
            if name not in known and value.lower() not in _NOTHING and value.lower() not in default:
                yield one[key], name, value


def _limits(what: str, stated: Iterable[tuple[str, str, str]], text: str) -> Iterator[str]:
    """One line for all settings of partitions or of QOS."""
    found: dict[str, list[str]] = {}
    for group, name, value in stated:
        found.setdefault(f"{_as_written(name, text)}={value}", []).append(group)
    if found:
        listed = ", ".join(f"{setting} ({', '.join(groups)})" for setting, groups in found.items())
        yield f"settings of {what} that are not simulated: {listed}"


def _as_written(name: str, text: str) -> str:
    """A name in the letters that the text has for it first."""
    pattern = rf"(?<!\w){re.escape(name)}(?=\s*(?:[=|]|$))"
    found = re.search(pattern, text, re.IGNORECASE | re.MULTILINE)
    return found[0] if found else name


def _of_the_cluster(values: Mapping[str, str], qos: Sequence[Mapping[str, str]]) -> Iterator[str]:
    enforced = {word.strip().lower() for word in values.get("accountingstorageenforce", "").split(",")}
    if enforced & _OF_LIMITS:
        hint = "" if qos else ". Hint: the output of sacctmgr -P show qos shows which limits QOS have"
        yield (
            f"AccountingStorageEnforce={values['accountingstorageenforce']}: limits of accounts and QOS are not "
            f"simulated{hint}"
        )
    licenses = values.get("licenses", "")
    if licenses.lower() not in _NOTHING:
        yield f"Licenses={licenses} is not simulated"
    over = values.get("overtimelimit", "")
    if over.lower() not in _NOTHING and not re.match(r"^0+(\D|$)", over):
        yield f"OverTimeLimit={over} is not simulated; jobs are taken to end at their limits"
    chosen = [
        word
        for word in values.get("selecttypeparameters", "").upper().replace(" ", "").split(",")
        if word in _OF_SELECTION
    ]
    if chosen:
        yield f"SelectTypeParameters that are not simulated: {', '.join(chosen)}"


def _of_priorities(values: Mapping[str, str], partitions: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """What multifactor priority goes by at the site and not here."""
    if values.get("prioritytype", "").lower() != "priority/multifactor":
        return
    flags = [word.strip() for word in values.get("priorityflags", "").split(",")]
    if unknown := [word for word in flags if word.lower() not in _SIMULATED_PRIORITY_FLAGS]:
        yield f"PriorityFlags that are not simulated: {', '.join(unknown)}"
    for name, shown in (
        ("priorityweightassoc", "PriorityWeightAssoc"),
        ("priorityusageresetperiod", "PriorityUsageResetPeriod"),
        ("prioritysitefactorplugin", "PrioritySiteFactorPlugin"),
    ):
        if (value := values.get(name, "")).lower() not in (*_NOTHING, "0"):
            yield f"{shown}={value} is not simulated"
    weights = [word.strip() for word in values.get("priorityweighttres", "").split(",")]
    of_others = [
        word
        for word in weights
        if word.partition("=")[0].lower() not in ("", "(null)", "cpu", "mem", "gres/gpu")
    ]
    if of_others:
        yield f"PriorityWeightTRES that are not simulated: {', '.join(of_others)}"
    if len({one.get("tresbillingweights", "").lower() for one in partitions}) > 1:
        yield "TRESBillingWeights that differ between partitions are not simulated; usage counts GPUs"
