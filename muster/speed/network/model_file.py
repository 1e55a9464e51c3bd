"""Network models as TOML files: the shipped ones, and a user's own.

A file has `name`, `source`, `licence`, `error` (a sentence on how far the fit is off), if wanted `aliases`, and
a table `[compact]` or `[measured]` with the fields of that form, which `docs/explanation/network.md` describes.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from muster.checked_toml import parse_toml
from muster.files import read_text, write_aside
from muster.speed.network.models import CompactModel, MeasuredModel

_SHIPPED_FOLDER = Path(__file__).parent / "model_files"

_Word = Annotated[str, Field(min_length=1)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Compact(_Table):
    """Fields of `[compact]`: those of CompactModel."""

    compute_seconds: _Positive
    messages_per_iteration: Annotated[int, Field(ge=1, le=1_000_000)]
    gradient_gb: _Amount
    first_ready_share: _Share
    ready_power: _Positive
    gradient_power: _Positive
    largest_share: _Share
    largest_at: _Share
    update_seconds: _Amount
    update_at: _Share


class _Measured(_Table):
    """Fields of `[measured]`: those of MeasuredModel."""

    compute_seconds: _Positive
    local_seconds: _Amount
    local_seconds_per_gpu: _Amount
    uplink_seconds: _Amount
    uplink_seconds_per_gpu: _Amount
    overlap: Annotated[float, Field(ge=1, le=10)]
    nic_gb_per_s: _Positive


class _File(_Table):
    name: _Word
    aliases: Annotated[tuple[_Word, ...], Field(strict=False)] = ()
    source: _Word
    licence: _Word
    error: _Word


class _CompactFile(_File):
    compact: _Compact


class _MeasuredFile(_File):
    measured: _Measured


@dataclass(frozen=True)
class NetworkModelFile:
    """A network model and where it comes from."""

    model: CompactModel | MeasuredModel
    aliases: tuple[str, ...]
    source: str
    licence: str
    error: str
    """A sentence on how far the model is from what it was fitted to."""


@functools.cache
def shipped() -> Mapping[str, NetworkModelFile]:
    """The network models that come with Muster, by name."""
    files = [read_model_file(path) for path in sorted(_SHIPPED_FOLDER.glob("*.toml"))]
    return MappingProxyType({file.model.name: file for file in files})


def find(name: str) -> NetworkModelFile | None:
    """The shipped network model of that name or alias, whatever its case; None if there is none."""
    wanted = name.strip().lower()
    return next((file for key, file in shipped().items() if wanted in (key, *file.aliases)), None)


def all_names() -> list[str]:
    """The names and aliases of the shipped network models."""
    return [word for key, file in shipped().items() for word in (key, *file.aliases)]


def network_models(
    names: Sequence[str],
) -> tuple[list[CompactModel | MeasuredModel | None], tuple[str, ...]]:
    """The models of a run by name, and one note on the unknown ones."""
    found = [find(name) for name in names]
    unknown = sorted({name for name, file in zip(names, found, strict=True) if file is None and name})
    notes = []
    if unknown:
        notes.append(f"no network model for {', '.join(unknown)}: taken as insensitive to the network")
    return [None if file is None else file.model for file in found], tuple(notes)


def read_model_file(path: Path) -> NetworkModelFile:
    """A network model from its TOML file."""
    text = read_text(path)
    file: _CompactFile | _MeasuredFile
    if _has_measured_table(text):
        file = parse_toml(text, str(path), _MeasuredFile)
        model: CompactModel | MeasuredModel = MeasuredModel(file.name, **file.measured.model_dump())
    else:
        file = parse_toml(text, str(path), _CompactFile)
        model = CompactModel(file.name, **file.compact.model_dump())
    aliases = tuple(alias.lower() for alias in file.aliases)
    return NetworkModelFile(model, aliases, file.source, file.licence, file.error)


def _has_measured_table(text: str) -> bool:
    try:
        return "measured" in tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False


def write_model_file(file: NetworkModelFile, path: Path) -> None:
    """The TOML file that `read_model_file` reads back, numbers to six digits."""
    numbers = asdict(file.model)
    lines = [f"name = {json.dumps(numbers.pop('name'))}"]
    if file.aliases:
        lines.append(f"aliases = {json.dumps(file.aliases)}")
    texts = {"source": file.source, "licence": file.licence, "error": file.error}
    lines += [f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in texts.items()]
    lines += ["", "[measured]" if isinstance(file.model, MeasuredModel) else "[compact]"]
    lines += [f"{key} = {value:.6g}" for key, value in numbers.items()]
    with write_aside(path) as aside:
        aside.write_text("\n".join(lines) + "\n", encoding="utf-8")
