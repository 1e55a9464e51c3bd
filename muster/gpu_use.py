"""How busy GPUs of this machine are, by NVIDIA's management library (NVML)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pynvml

_PERIOD_SECONDS = 2.0
_OLD_SECONDS = 30.0
"""After which an answer of the driver says nothing of now."""


@dataclass(frozen=True)
class GpuUse:
    """Of one GPU, by whatever runs on it."""

    busy: float | None
    """Share of the last second or less in which it ran anything; None for a part of a GPU (MIG)."""
    memory_gb: float | None


class GpuMeter:
    """Asks the driver every two seconds, in a thread of its own: one that hangs never answers."""

    def __init__(self, uuids: Sequence[str]) -> None:
        """Of GPUs with these UUIDs, or of instances of a divided one; an empty one is a GPU that is not there."""
        self._uuids = tuple(uuids)
        self._newest: tuple[float, tuple[GpuUse | None, ...]] = (-_OLD_SECONDS, ())
        if any(self._uuids):
            threading.Thread(target=self._keep_reading, name="gpu use", daemon=True).start()

    def latest(self) -> tuple[GpuUse | None, ...]:
        """Each GPU, None where its driver does not answer; empty if nothing is known of now."""
        moment, uses = self._newest
        return uses if time.monotonic() - moment < _OLD_SECONDS else ()

    def _keep_reading(self) -> None:
        pause = threading.Event()
        while True:
            with suppress(pynvml.NVMLError), _driver():
                while True:
                    self._newest = (time.monotonic(), tuple(_use(uuid) for uuid in self._uuids))
                    pause.wait(_PERIOD_SECONDS)
            pause.wait(_OLD_SECONDS)


@contextmanager
def _driver() -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _use(uuid: str) -> GpuUse | None:
    """What the driver says of one GPU; None if it is not there, or says nothing."""
    if not uuid:
        return None
    try:
        gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        memory_gb = pynvml.nvmlDeviceGetMemoryInfo(gpu).used / 1e9
    except pynvml.NVMLError:
        return None
    try:
        return GpuUse(pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100, memory_gb)
    except pynvml.NVMLError:
        return GpuUse(None, memory_gb)
