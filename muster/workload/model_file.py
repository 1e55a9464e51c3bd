"""The TOML form of a model: its fields, and every way it can be wrong.

`docs/reference/models.md` describes the fields; `muster.workload.models` turns a checked file into a `Model`.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.formatting import counted
from muster.patterns import WORD
from muster.problems import InputError, Problem, with_hint

MOST_CPU_POINTS = 16
MOST_MEMORY_POINTS = 8
STORAGE_BOUND_TOLERANCE = 0.03
"""Synergy's own error of a predicted storage-bound point; a measured point this close counts as one."""
_REFERENCE_TOLERANCE = 1e-6

_Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
_ShareBefore1: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
_Word: TypeAlias = Annotated[str, Field(min_length=1, pattern=WORD)]
Contradiction: TypeAlias = tuple[str, object, str]
"""A field that is right alone and wrong beside others: its name, what was found, what is allowed."""


class DatasetFile(BaseModel):
    """Fields of the table `[dataset]`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    size_gb: _Positive
    sample_gb: _Positive
    storage_gb_per_s: _Positive
    memory_gb_per_s: _Positive


_Matrix: TypeAlias = Annotated[
    tuple[Annotated[tuple[_Positive, ...], Field(strict=False)], ...], Field(strict=False, min_length=1)
]


class GpuTypeFile(BaseModel):
    """Fields of a table `[gpu_types.NAME]`: one of them says how fast the model is on GPUs of that type."""

    model_config = ConfigDict(extra="forbid", strict=True)

    speed: _Matrix | None = None
    compute_scale: _Positive | None = None


class ComputeFile(BaseModel):
    """Fields of the table `[compute]`: how compute depends on the samples that a GPU takes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    fixed_samples: _NotNegative
    largest_batch: Annotated[int, Field(ge=1, le=10**9)] | None = None
    seconds: _Positive | None = None
    source: _Word | None = None
    error: _Word | None = None


class CompactFile(BaseModel):
    """Fields of the table `[network.compact]`: those of `speed.network.models.CompactModel`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    compute_seconds: _Positive
    messages_per_iteration: Annotated[int, Field(ge=1, le=1_000_000)]
    gradient_gb: _NotNegative
    first_ready_share: _Share
    ready_power: _Positive
    gradient_power: _Positive
    largest_share: _Share
    largest_at: _Share
    update_seconds: _NotNegative
    update_at: _Share


class MeasuredFile(BaseModel):
    """Fields of the table `[network.measured]`: those of `speed.network.models.MeasuredModel`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    compute_seconds: _Positive
    local_seconds: _NotNegative
    local_seconds_per_gpu: _NotNegative
    uplink_seconds: _NotNegative | None = None
    uplink_seconds_per_gpu: _NotNegative | None = None
    overlap: Annotated[float, Field(ge=1, le=10)]
    nic_gb_per_s: _Positive | None = None


class NetworkFile(BaseModel):
    """Fields of the table `[network]`: one of the two forms, and where it comes from."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: _Word
    licence: _Word
    error: _Word
    compact: CompactFile | None = None
    measured: MeasuredFile | None = None


class EfficiencyFile(BaseModel):
    """Fields of the table `[efficiency]`: how much a larger total batch advances a job."""

    model_config = ConfigDict(extra="forbid", strict=True)

    progress: Annotated[tuple[_ShareBefore1, ...], Field(strict=False, min_length=1)]
    noise_scale: Annotated[tuple[_NotNegative, ...], Field(strict=False, min_length=1)]
    source: _Word
    licence: _Word
    error: _Word


class ModelFile(BaseModel):
    """Fields of a model file; those of `INPUT_FIELDS` may be absent, all together, where there is `[network]`."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())

    name: _Word
    aliases: Annotated[tuple[_Word, ...], Field(strict=False)] = ()
    family: _Word = "other"
    batch: Annotated[int, Field(ge=1, le=10**9)] | None = None
    seconds_per_iteration: _Positive = math.nan
    source: _Word
    licence: _Word
    reference_cpus_per_gpu: _Positive = math.nan
    reference_memory_gb_per_gpu: _Positive = math.nan
    cpus_per_gpu: Annotated[
        tuple[_Positive, ...], Field(strict=False, min_length=1, max_length=MOST_CPU_POINTS)
    ] = ()
    memory_gb_per_gpu: Annotated[
        tuple[_Positive, ...], Field(strict=False, min_length=1, max_length=MOST_MEMORY_POINTS)
    ] = ()
    speed: _Matrix = ()
    restart_seconds: _NotNegative | None = None
    gpu_type: _Word | None = None
    gpu_types: dict[_Word, GpuTypeFile] = Field(default_factory=dict)
    dataset: DatasetFile | None = None
    compute: ComputeFile | None = None
    network: NetworkFile | None = None
    efficiency: EfficiencyFile | None = None


BETWEEN_MACHINES = ("uplink_seconds", "uplink_seconds_per_gpu", "nic_gb_per_s")
"""Fields of `[network.measured]` that are absent where one machine was measured."""
INPUT_FIELDS = (
    "family",
    "batch",
    "seconds_per_iteration",
    "reference_cpus_per_gpu",
    "reference_memory_gb_per_gpu",
    "cpus_per_gpu",
    "memory_gb_per_gpu",
    "speed",
)
"""The sensitivity to CPUs and memory, with what it was measured on."""
_INPUT_ALONE = (*INPUT_FIELDS[2:], "dataset", "gpu_types")
"""Fields that mean nothing without the others of `INPUT_FIELDS`."""
_NUMBER_ABOVE_0 = "allowed: a number above 0"
_ALLOWED: Mapping[str, str] = {
    "name": "allowed: a name in quotes",
    "aliases": 'allowed: a list of names, such as ["res18"]',
    "family": "allowed: a word in quotes: image, language, speech or your own",
    "batch": "allowed: a whole number from 1 on (samples a GPU an iteration)",
    "source": "allowed: a sentence in quotes that says where the numbers come from",
    "licence": 'allowed: the licence of the numbers, in quotes ("own measurement" will do)',
    "cpus_per_gpu": f"allowed: a list of 1 to {MOST_CPU_POINTS} numbers above 0 (CPU cores a GPU)",
    "memory_gb_per_gpu": f"allowed: a list of 1 to {MOST_MEMORY_POINTS} numbers above 0 (GB a GPU)",
    "restart_seconds": "allowed: a number from 0 on (seconds of one stop and start-up)",
    "speed": "allowed: a list of rows of numbers above 0, one row a CPU point",
    "gpu_type": "allowed: the type of GPU that was measured, in quotes, as clusters name it",
    "gpu_types": "allowed: a table [gpu_types.NAME] with speed or compute_scale",
    "fixed_samples": "allowed: a number from 0 on (samples that take as long as the fixed part of a pass)",
    "largest_batch": "allowed: a whole number of samples that one GPU holds at once, at least batch",
    "seconds": "allowed: a number above 0 (seconds of a pass over batch samples that waits for no input)",
    "error": "allowed: a sentence in quotes on how far the numbers are off",
    "compute": "allowed: a table [compute] with fixed_samples and if wanted largest_batch, seconds, source, error",
    "efficiency": "allowed: a table [efficiency] with progress, noise_scale, source, licence, error",
    "progress": "allowed: a list of shares of the work, from 0 on and below 1",
    "noise_scale": "allowed: a list of numbers of samples from 0 on, one for each share of progress",
    "network": "allowed: a table [network] with source, licence, error and one of compact and measured",
    "compact": "allowed: a table [network.compact] with the fields of docs/reference/models.md",
    "measured": "allowed: a table [network.measured] with the fields of docs/reference/models.md",
    "messages_per_iteration": "allowed: a whole number from 1 to 1,000,000",
    "overlap": "allowed: a number from 1 (nothing hides) to 10 (nearly all hides)",
    **dict.fromkeys(("gradient_gb", "update_seconds"), "allowed: a number from 0 on"),
    **dict.fromkeys(
        ("first_ready_share", "largest_share", "largest_at", "update_at"), "allowed: a number from 0 to 1"
    ),
    **dict.fromkeys(
        ("local_seconds", "local_seconds_per_gpu", "uplink_seconds", "uplink_seconds_per_gpu"),
        "allowed: a number from 0 on",
    ),
    "dataset": "allowed: a table [dataset] with size_gb, sample_gb, storage_gb_per_s, memory_gb_per_s",
}


def checked_model_file(path: Path) -> ModelFile:
    """The fields of one model file; all mistakes in it are raised together."""
    text = _text_of(path)
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(_toml_problem(path, text, error)) from None
    missing = list(_missing_input(path, raw))
    try:
        fields = ModelFile.model_validate(raw)
    except ValidationError as error:
        raise InputError(*_problems_of(path, text, error), *missing) from None
    if missing:
        raise InputError(*missing)
    problems = [
        Problem(str(path), what, row=_line_of(text, *column.split(".")), column=column, found=found)
        for column, found, what in _contradictions(fields)
    ]
    if problems:
        raise InputError(*problems)
    return fields


def _missing_input(path: Path, raw: Mapping[str, object]) -> Iterator[Problem]:
    """The fields of the input stage that are missing, where some are stated or nothing else is known of the model."""
    if "network" in raw and not any(field in raw for field in _INPUT_ALONE):
        return
    for field in INPUT_FIELDS:
        if field not in raw:
            what = f"this field is missing; {_ALLOWED.get(field, _NUMBER_ABOVE_0)}"
            yield Problem(str(path), what, column=field)


def _text_of(path: Path) -> str:
    """The file's text, or words for why it cannot be had."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        what = "no such file"
    except IsADirectoryError:
        what = "this is a folder; allowed: a model file (*.toml)"
    except UnicodeDecodeError:
        what = "this is not text in UTF-8; allowed: a model file (*.toml)"
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    raise InputError(Problem(str(path), what))


def _toml_problem(path: Path, text: str, error: ValueError | RecursionError) -> Problem:
    """Where TOML stopped being TOML."""
    if isinstance(error, RecursionError):
        return Problem(str(path), "not valid TOML: its brackets nest too deep")
    said = re.fullmatch(
        r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error), flags=re.DOTALL
    )
    if said is None:
        return Problem(str(path), "not valid TOML: a number in it is too long or no number")
    row = int(said[2]) if said[2] else text.count("\n") + 1
    return Problem(str(path), f"not valid TOML: {said[1]}", row=row)


def _problems_of(path: Path, text: str, error: ValidationError) -> Iterable[Problem]:
    """Pydantic's findings as problems: field, what was found, what is allowed."""
    for finding in error.errors(include_url=False, include_context=False):
        names = [part for part in finding["loc"] if isinstance(part, str)]
        indices = [part for part in finding["loc"] if isinstance(part, int)]
        field = names[-1]
        column = ".".join(names)
        row = _line_of(text, *names)
        if finding["type"] == "missing":
            what = f"this field is missing; {_ALLOWED.get(field, _NUMBER_ABOVE_0)}"
            yield Problem(str(path), what, column=column)
            continue
        if finding["type"] == "extra_forbidden":
            yield Problem(str(path), _unknown_field(names), row=row, column=column)
            continue
        if indices:
            column += ", " + ", ".join(
                f"{word} {index + 1}" for word, index in zip(_index_words(field), indices, strict=False)
            )
        inside_list = len(indices) == len(_index_words(field)) > 0
        above_0 = inside_list and field not in ("aliases", "progress", "noise_scale")
        allowed = _NUMBER_ABOVE_0 if above_0 else _ALLOWED.get(field)
        if names[0] == "gpu_types" and len(names) < 3:
            allowed = _ALLOWED["gpu_types"]
        what = allowed or _NUMBER_ABOVE_0
        yield Problem(str(path), what, row=row, column=column, found=_short(finding["input"]))


def _index_words(field: str) -> tuple[str, ...]:
    """How the places inside a list field are called."""
    if field == "speed":
        return ("row", "value")
    lists = ("cpus_per_gpu", "memory_gb_per_gpu", "aliases", "progress", "noise_scale")
    return ("value",) if field in lists else ()


def _unknown_field(names: Sequence[str]) -> str:
    tables: Mapping[str, type[BaseModel]] = {
        "dataset": DatasetFile,
        "gpu_types": GpuTypeFile,
        "compute": ComputeFile,
        "network": NetworkFile,
        "efficiency": EfficiencyFile,
    }
    if names[0] == "network" and len(names) > 2:
        tables = {"network": CompactFile if names[1] == "compact" else MeasuredFile}
    allowed = (ModelFile if len(names) == 1 else tables[names[0]]).model_fields
    close = difflib.get_close_matches(names[-1], allowed, n=1)
    hint = f"did you mean {close[0]}?" if close else ""
    return with_hint(f"no such field; allowed: {', '.join(allowed)}", hint)


def _short(value: Any) -> object:
    """What was found, without pages of it."""
    if isinstance(value, int | float | bool):
        return value
    shown = value if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _line_of(text: str, *way: str) -> int | None:
    """Line of the file that sets this field, where it is set in the plain way; of a table its header's."""
    lines = text.splitlines()
    header = _header_line(lines, way)
    if header is not None or (len(way) == 2 and way[0] == "gpu_types"):
        return header
    table = _header_line(lines, way[:-1]) or 0
    pattern = re.compile(rf"""\s*["']?{re.escape(way[-1])}["']?\s*=""")
    return next((at for at, line in enumerate(lines, start=1) if at > table and pattern.match(line)), None)


def _header_line(lines: Sequence[str], way: Sequence[str]) -> int | None:
    """The line that opens the table `[way]`."""
    return next((at for at, line in enumerate(lines, start=1) if way and _is_header(line, way)), None)


def _is_header(line: str, way: Sequence[str]) -> bool:
    """Whether a line opens the table `[way]`."""
    names = r"\s*\.\s*".join(rf"""["']?{re.escape(name)}["']?""" for name in way)
    return re.match(rf"\s*\[\s*{names}\s*\]", line) is not None


def _contradictions(fields: ModelFile) -> list[Contradiction]:
    """Fields that are right alone and wrong together."""
    wrong = [
        *_falling_axes(fields),
        *_matrices_off_the_axes(fields),
        *_unclear_gpu_types(fields),
        *_references_off_the_axes(fields),
        *_batches_beyond_the_gpu(fields),
        *_compute_slower_than_all_of_it(fields),
        *_unclear_networks(fields),
        *_unclear_efficiencies(fields),
    ]
    if not fields.speed:
        return wrong
    return wrong or _not_one_at_reference(fields) or _too_fast_for_storage(fields)


def _falling_axes(fields: ModelFile) -> Iterator[Contradiction]:
    for column, axis in (
        ("cpus_per_gpu", fields.cpus_per_gpu),
        ("memory_gb_per_gpu", fields.memory_gb_per_gpu),
    ):
        falls = [later for earlier, later in itertools.pairwise(axis) if later <= earlier]
        if falls:
            yield column, falls[0], "each point must be larger than the one before it"


def _matrices_off_the_axes(fields: ModelFile) -> Iterator[Contradiction]:
    """Matrices that do not have a value for each point of the two axes."""
    cpus, memory = len(fields.cpus_per_gpu), len(fields.memory_gb_per_gpu)
    for column, matrix in _matrices(fields):
        if len(matrix) != cpus:
            points = counted(cpus, "point")
            yield (
                column,
                counted(len(matrix), "row"),
                f"cpus_per_gpu has {points}, so speed needs {counted(cpus, 'row')}",
            )
        for number, row in enumerate(matrix, start=1):
            if len(row) != memory:
                what = (
                    f"memory_gb_per_gpu has {counted(memory, 'point')}, so every row of speed needs {memory}"
                )
                yield column, f"{counted(len(row), 'value')} in row {number}", what


def _unclear_gpu_types(fields: ModelFile) -> Iterator[Contradiction]:
    """GPU types that state their speed twice or not at all, or that are named twice."""
    for name, kind in fields.gpu_types.items():
        if (kind.speed is None) == (kind.compute_scale is None):
            yield f"gpu_types.{name}", None, "allowed: exactly one of speed and compute_scale"
    named = Counter(name.casefold() for name in (*fields.gpu_types, fields.gpu_type or ""))
    for name in fields.gpu_types:
        if named[name.casefold()] > 1:
            what = "this GPU type is named twice (gpu_type is that of the main table)"
            yield f"gpu_types.{name}", None, what


def _references_off_the_axes(fields: ModelFile) -> Iterator[Contradiction]:
    for column in ("cpus_per_gpu", "memory_gb_per_gpu") if fields.speed else ():
        axis, point = getattr(fields, column), getattr(fields, f"reference_{column}")
        if point not in axis:
            yield f"reference_{column}", point, f"it must be one of {column}: {_listed(axis)}"


def _batches_beyond_the_gpu(fields: ModelFile) -> Iterator[Contradiction]:
    """A largest batch that is smaller than the batch with which the model was measured."""
    if fields.compute is None:
        return
    most = fields.compute.largest_batch
    if fields.batch is None:
        yield "compute", None, "says nothing without batch, the samples of a GPU in an iteration"
    elif most is not None and most < fields.batch:
        yield "compute.largest_batch", most, f"allowed: at least batch, {fields.batch}, which a GPU holds"


def _compute_slower_than_all_of_it(fields: ModelFile) -> Iterator[Contradiction]:
    """Seconds of compute that no iteration of the matrix has, or that the network's profile states."""
    if fields.compute is None or fields.compute.seconds is None:
        return
    if not fields.speed:
        yield "compute.seconds", fields.compute.seconds, "without speed they are compute_seconds of [network]"
        return
    fastest = fields.seconds_per_iteration / max(max(row) for row in fields.speed)
    if fields.compute.seconds > fastest * (1 + _REFERENCE_TOLERANCE):
        what = f"allowed: at most {fastest:.6g}, the seconds of the fastest iteration of speed"
        yield "compute.seconds", fields.compute.seconds, what


def _unclear_networks(fields: ModelFile) -> Iterator[Contradiction]:
    """A network table of both forms, or of none, or with a part of what belongs to several machines."""
    network = fields.network
    if network is None:
        return
    if (network.compact is None) == (network.measured is None):
        yield "network", None, "allowed: exactly one of compact and measured"
    if network.measured is None:
        return
    missing = [name for name in BETWEEN_MACHINES if getattr(network.measured, name) is None]
    if 0 < len(missing) < len(BETWEEN_MACHINES):
        what = f"missing beside the others of {', '.join(BETWEEN_MACHINES)}; allowed: all of them, or none"
        yield f"network.measured.{missing[0]}", None, what


def _unclear_efficiencies(fields: ModelFile) -> Iterator[Contradiction]:
    """A noise scale that does not begin at 0, lacks a value, or belongs to no batch."""
    stated = fields.efficiency
    if stated is None:
        return
    if fields.batch is None:
        yield "efficiency", None, "says nothing without batch, the samples of a GPU in an iteration"
    if stated.progress[0] != 0:
        yield "efficiency.progress", stated.progress[0], "allowed: 0 as the first share, where a job begins"
    falls = [later for earlier, later in itertools.pairwise(stated.progress) if later <= earlier]
    if falls:
        yield "efficiency.progress", falls[0], "each share must be larger than the one before it"
    if len(stated.noise_scale) != len(stated.progress):
        found = counted(len(stated.noise_scale), "value")
        yield (
            "efficiency.noise_scale",
            found,
            f"progress has {len(stated.progress)} shares, one value for each",
        )


def _not_one_at_reference(fields: ModelFile) -> list[Contradiction]:
    """A speed at the reference that is not 1; the reference is a point of the axes."""
    cpus, memory = fields.reference_cpus_per_gpu, fields.reference_memory_gb_per_gpu
    at_reference = fields.speed[fields.cpus_per_gpu.index(cpus)][fields.memory_gb_per_gpu.index(memory)]
    if math.isclose(at_reference, 1, abs_tol=_REFERENCE_TOLERANCE):
        return []
    where = f"{counted(cpus, 'CPU')} and {memory:g} GB"
    what = f"speed is relative to the reference, so it must be 1 at {where}; divide all of it by this"
    return [("speed", at_reference, what)]


def _matrices(fields: ModelFile) -> Iterable[tuple[str, Sequence[Sequence[float]]]]:
    """Every stated matrix, under the name of its field."""
    yield "speed", fields.speed
    for name, kind in fields.gpu_types.items():
        if kind.speed is not None:
            yield f"gpu_types.{name}.speed", kind.speed


def _too_fast_for_storage(fields: ModelFile) -> list[Contradiction]:
    """Points that were measured faster than their samples could be read (Synergy, optimistic profiling)."""
    data = fields.dataset
    if data is None:
        return []
    for column, memory in enumerate(fields.memory_gb_per_gpu):
        cached = min(1, memory / data.size_gb)
        batch_gb = (fields.batch or 0) * data.sample_gb
        read_seconds = batch_gb * (cached / data.memory_gb_per_s + (1 - cached) / data.storage_gb_per_s)
        most = max(row[column] for _, matrix in _matrices(fields) for row in matrix)
        fastest = fields.seconds_per_iteration / most
        if read_seconds > fastest * (1 + STORAGE_BOUND_TOLERANCE):
            what = (
                f"reading one batch at {memory:g} GB would take {read_seconds:.3g} s by these facts, but an "
                f"iteration was measured at {fastest:.3g} s; correct the facts or the speeds"
            )
            return [("dataset", None, what)]
    return []


def _listed(axis: Sequence[float]) -> str:
    return ", ".join(f"{point:g}" for point in axis)
