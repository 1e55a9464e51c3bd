"""The models whose sensitivity is known: the shipped ones, and those that `muster profile` has measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.service.home import models_folder
from muster.service.request import JobRequest
from muster.workload.models import Model, read_model, shipped_models

log = structlog.get_logger()


class KnownModels:
    """Models by their lower-case names and aliases; files that come later are seen."""

    def __init__(self, home: Path) -> None:
        self._folder = models_folder(home)
        self._seen: tuple[tuple[str, int], ...] | None = None
        self._models: Mapping[str, Model] = {}

    def all(self) -> Mapping[str, Model]:
        """What is known now: another mapping where files have changed, else the same one.

        A file that cannot be read is left out, with a warning in the log: `muster profile` writes a new one.
        """
        files = {}
        for file in sorted(self._folder.glob("*.toml")):
            files[file] = -1
            with suppress(OSError):  # A link that leads nowhere, or a file that has gone meanwhile.
                files[file] = file.stat().st_mtime_ns
        seen = tuple((file.name, changed) for file, changed in files.items())
        if seen != self._seen:
            known = [*shipped_models().values(), *(entry for file in files if (entry := _readable(file)))]
            self._models = {name.lower(): entry for entry in known for name in (*entry.aliases, entry.name)}
            self._seen = seen
        return self._models


def unknown_model(
    request: JobRequest, models: Mapping[str, Model], where: str = "request"
) -> Iterator[Problem]:
    """The problem of a job that goes by a model that is not among `models`."""
    if request.model is None or request.model.lower() in models:
        return
    hint = did_you_mean(request.model, models)
    names = ", ".join(sorted({entry.name for entry in models.values()}))
    what = with_hint(f"allowed: {names}, or one that muster profile has measured", hint)
    yield Problem(where, what, column="model", found=request.model)


def _readable(file: Path) -> Model | None:
    try:
        return read_model(file)
    except InputError as bad:
        log.warning("a model file cannot be read", file=str(file), error=str(bad))
        return None
