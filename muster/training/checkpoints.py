"""Checkpoints: whole or absent, checked by their sum, the last two kept.

A checkpoint is one file of `checkpoints/` in the folder of its start, named by its step and the SHA-256 of its
bytes: one rename publishes both. Its content is what `torch.save` (or, without PyTorch, pickle) wrote.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from muster.training import pytorch
from muster.training.run_folder import RunFolder, flush_folder, publish_or_remove

KEPT = 2

_NAME = re.compile(r"step-(\d+)-([0-9a-f]{64})\.(pt|pickle)")


@dataclass(frozen=True)
class _Saved:
    path: Path
    step: int
    digest: str

    def whole(self) -> bool:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.digest


class Checkpoints:
    """The checkpoints of one job, written by one of its starts."""

    def __init__(self, run_folder: RunFolder) -> None:
        self._run_folder = run_folder
        self._folder = run_folder.checkpoints

    def save(self, step: int, content: dict[str, Any]) -> None:
        """Writes aside, flushes, renames; `Stale` if a newer start has begun, OSError if the disk is full."""
        aside = self._folder / f"{os.getpid()}.part"
        with self._run_folder.publishing(), publish_or_remove(aside):
            torch = pytorch.if_loaded()
            with aside.open("wb") as file:
                hashing = _HashingFile(file)
                with hashing.failing_as_it_did():
                    if torch is None:
                        pickle.dump(content, hashing, protocol=pickle.HIGHEST_PROTOCOL)
                    else:
                        torch.save(content, hashing)
                file.flush()
                os.fsync(file.fileno())
            kind = "pickle" if torch is None else "pt"
            self._run_folder.check_newest()
            aside.replace(self._folder / f"step-{step:012d}-{hashing.digest}.{kind}")
            flush_folder(self._folder)
            self._remove_old()

    def newest_whole(self, say: Callable[[str], None]) -> Path | None:
        """The newest checkpoint that is whole; damaged ones above it are removed."""
        with self._run_folder.publishing():
            for saved in self._all():
                if saved.whole():
                    # A start that was killed just after it published had not removed the oldest yet.
                    self._remove_old()
                    return saved.path
                say(f"checkpoint of step {saved.step} is damaged and was removed; trying the one before")
                saved.path.unlink()
        return None

    def _remove_old(self) -> None:
        for old in self._all()[KEPT:]:
            old.path.unlink()

    def _all(self) -> list[_Saved]:
        """Newest first."""
        matches = ((path, _NAME.fullmatch(path.name)) for path in self._folder.iterdir())
        saved = [_Saved(path, int(m[1]), m[2]) for path, m in matches if m]
        return sorted(saved, key=lambda each: each.step, reverse=True)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What was saved; tensors come to the host, their owners move them."""
    with path.open("rb") as file:
        if path.suffix == ".pt":
            # A checkpoint holds random states beside tensors, and lies in the job's own folder.
            content = pytorch.load().load(file, map_location="cpu", weights_only=False)
        else:
            content = pickle.load(file)
    assert isinstance(content, dict)
    return content


class _HashingFile:
    """A file being written, and the sum of what passed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self._failure: OSError | None = None

    def write(self, data: bytes) -> int:
        self._sum.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self._failure = error
            raise

    @contextmanager
    def failing_as_it_did(self) -> Iterator[None]:
        """Raises the cause of a failed write, not what followed: `torch.save` raises an error of its own."""
        try:
            yield
        except Exception:
            if self._failure is not None:
                raise self._failure from None
            raise

    def flush(self) -> None:
        self._file.flush()

    @property
    def digest(self) -> str:
        return self._sum.hexdigest()
