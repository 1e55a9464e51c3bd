"""What a user submits: one job, checked at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from muster.cluster.ledger_arrays import WHOLE
from muster.cluster.resources import FURTHER, UNKNOWN
from muster.patterns import CONSTRAINT, FOLDER, NAME, TEXT, VARIABLE
from muster.training.unchanged import STOP_SIGNALS, UnchangedJob

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=NAME)]
Text = Annotated[str, Field(max_length=32_768, pattern=TEXT)]
Folder = Annotated[str, Field(max_length=4096, pattern=FOLDER)]
"""Absolute."""
Variable = Annotated[str, Field(max_length=200, pattern=VARIABLE)]

DEFAULT_RESTART_COST_SECONDS = 60.0
"""Expected of one stop and start-up of a job of which nothing is known."""
_OURS = ("MUSTER_", "CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class JobRequest(BaseModel):
    """A job as its owner asks for it. Units: GPUs, CPU cores, GB, seconds, steps (iterations)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    name: Name
    command: Annotated[tuple[Text, ...], Field(min_length=1, max_length=4096)]
    """An argument list; no shell reads it."""
    directory: Folder
    """Where the command runs."""
    environment: Annotated[dict[Variable, Text], Field(max_length=1000)] = Field(default_factory=dict)
    gpus: Annotated[int, Field(ge=0, le=100_000)] = 1
    """0: a job with CPUs and memory only, which it states."""
    min_gpus: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Fewest GPUs on which it can run; None: as many as `gpus`. Its amounts are for `gpus`, and go along with them."""
    max_gpus: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Most GPUs that it can use; None: as many as `gpus`."""
    gpu_share: Annotated[float, Field(ge=0.001, le=1)] = 1.0
    """Of one GPU, counted in thousandths."""
    ranks: Literal["one", "per-gpu"] = "one"
    """Processes: one a node, or one a GPU."""
    cpus: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """The least that it gets; None: the scheduler decides."""
    memory_gb: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """The least that it gets in all: what its processes need for themselves and for cached samples."""
    own_memory_gb: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """What its processes together need for themselves; the rest of its grant is for cached samples. None: 4 GB each,
    but at most half of the grant."""
    resources: Annotated[dict[str, Annotated[float, Field(gt=0, le=1e9)]], Field(max_length=100)] = Field(
        default_factory=dict
    )
    """Amounts of the resources that installed packages describe, by name: exactly what it gets. Their descriptions
    say whether the amount is for each GPU or for all of them together."""
    compute_threads: Annotated[int, Field(ge=1, le=4096)] = 1
    """OMP_NUM_THREADS, the same at every start, so that a resumed run has the same bits."""
    model: Name | None = None
    """Whose sensitivity the scheduler goes by; None: a job that CPU and memory do not slow."""
    steps: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Of the whole job; None: not known to the scheduler until the job says so itself."""
    time_limit_seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Seconds of running, all starts together, after which the job is ended; None: no limit."""
    deadline_seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Seconds after its submission by which it should have completed; None: none."""
    priority: Annotated[float, Field(ge=-1e9, le=1e9)] = 0.0
    tenant: Name | None = None
    constraint: Annotated[str, Field(max_length=200, pattern=CONSTRAINT)] = ""
    preemptible: bool | None = None
    """Whether it may be stopped to make room for another job. None: if it saves its work when it is stopped."""
    min_runtime_seconds: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    held: bool = False
    """Waits for `release` first."""
    checkpoint_seconds: Annotated[float, Field(ge=0, le=1e7)] = 600.0
    grace_seconds: Annotated[float, Field(ge=0, le=86_400)] = 30.0
    """From the notice to SIGKILL."""
    stop_signal: Literal[STOP_SIGNALS] | None = None  # type: ignore[valid-type]
    """For a job that does not use `muster.training`: makes it save its work and end. None: nothing does."""
    progress: Annotated[str, Field(max_length=1000)] | None = None
    r"""For such a job: finds the step in a line of its output, `step (?P<step>\d+)/`."""
    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """After deaths that are not its own doing, in a row without any progress between them."""
    output_limit_gb: Annotated[float, Field(gt=0, le=1e6)] = 5.0
    """Most output of one process that the disk keeps; the oldest part is dropped where it prints more."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_fixed_batch(cls, fields: object) -> object:
        if isinstance(fields, Mapping) and "max_batch" in fields:
            raise ValueError(
                f"max_batch: found {fields['max_batch']!r}; allowed: nothing, because a job of the service keeps its "
                "total batch on every size. Hint: muster simulate shows what a varying batch would gain"
            )
        return fields

    @field_validator("command")
    @classmethod
    def _has_a_program(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not command[0].strip():
            raise ValueError(f"found {command[0]!r}; allowed: a program as the first word")
        return command

    @field_validator("resources")
    @classmethod
    def _are_described(cls, resources: dict[str, float]) -> dict[str, float]:
        known = {one.name: one for one in FURTHER}
        for name, amount in resources.items():
            if name not in known:
                raise ValueError(f"{name}: {UNKNOWN}")
            if not known[name].allows(amount):
                raise ValueError(f"{name}: allowed: a whole number of {known[name].unit}")
        return resources

    @model_validator(mode="after")
    def _fits_together(self) -> JobRequest:
        if self.gpu_share < 1 and self.gpus != 1:
            raise ValueError(f"gpu_share is of one GPU, and gpus is {self.gpus}; give one of the two")
        if (
            self.gpus
            and self.changes_size
            and (self.gpu_share < 1 or not self.fewest_gpus <= self.gpus <= self.most_gpus)
        ):
            what = (
                f"gpus is {self.gpus * self.gpu_share:g}; allowed: min_gpus up to gpus, max_gpus from gpus on"
            )
            raise ValueError(f"min_gpus and max_gpus are {self.fewest_gpus} and {self.most_gpus}, and {what}")
        if self.memory_gb is not None and (self.own_memory_gb or 0) > self.memory_gb:
            raise ValueError(f"own_memory_gb is a part of memory_gb, which is {self.memory_gb:g}")
        if self.gpus == 0:
            self._fits_without_gpus()
        if ".." in PurePosixPath(self.directory).parts:
            raise ValueError("directory may not go up by '..'; give the folder itself")
        if ours := [name for name in self.environment if name.startswith(_OURS[0]) or name in _OURS[1:]]:
            raise ValueError(f"environment: {', '.join(ours)}: Muster sets this itself; leave it out")
        if sum(map(len, self.command)) > 131_072:
            raise ValueError("command: its words are more than 131,072 characters in all")
        self.unchanged()
        return self

    def _fits_without_gpus(self) -> None:
        missing = [name for name in ("cpus", "memory_gb") if getattr(self, name) is None]
        if missing:
            raise ValueError(
                f"gpus is 0: a job without GPUs needs {' and '.join(missing)}; state what it needs"
            )
        if self.min_gpus is not None or self.max_gpus is not None:
            raise ValueError("gpus is 0: a job without GPUs has no sizes; leave min_gpus and max_gpus out")
        if self.ranks != "one":
            raise ValueError("gpus is 0: a job without GPUs has one process; leave ranks out")
        for_each_gpu = [one.name for one in FURTHER if one.per_gpu and one.name in self.resources]
        if for_each_gpu:
            raise ValueError(f"gpus is 0: {for_each_gpu[0]} is stated for each GPU; leave it out")
        if self.model is not None:
            raise ValueError("gpus is 0: the model of a job without GPUs has no effect; leave it out")

    @property
    def gpu_milli(self) -> int:
        """Its share of each GPU in thousandths; at least one, as a request of an old store may state less."""
        return max(round(self.gpu_share * WHOLE), 1)

    @property
    def fewest_gpus(self) -> int:
        """Fewest GPUs on which it can run."""
        return self.gpus if self.min_gpus is None else self.min_gpus

    @property
    def most_gpus(self) -> int:
        """Most GPUs that it can use."""
        return self.gpus if self.max_gpus is None else self.max_gpus

    @property
    def changes_size(self) -> bool:
        """Whether its owner lets the scheduler choose the number of its GPUs."""
        return not self.fewest_gpus == self.gpus == self.most_gpus

    @property
    def least_memory_gb(self) -> float | None:
        """The least memory that it gets in all; None: the scheduler decides."""
        return max((gb for gb in (self.memory_gb, self.own_memory_gb) if gb is not None), default=None)

    @property
    def least_amounts(self) -> dict[str, float]:
        """The least that it gets in all of what it states beside its GPUs, by resource."""
        stated = {"cpus": self.cpus, "memory_gb": self.least_memory_gb} | {
            one.name: one.in_all(self.resources[one.name], self.gpus)
            for one in FURTHER
            if one.name in self.resources
        }
        return {name: amount for name, amount in stated.items() if amount is not None}

    def stating(self, per_gpu: Mapping[str, float]) -> JobRequest:
        """The same, stating these amounts for each of its GPUs where its owner states none."""
        stated, gpus = self.least_amounts, self.gpus * self.gpu_share
        more = {name: amount * gpus for name, amount in per_gpu.items() if gpus and name not in stated}
        return self.model_copy(update=more) if more else self

    def unchanged(self) -> UnchangedJob | None:
        """How to talk to a job that does not use `muster.training`; None: it does."""
        if self.stop_signal is None and self.progress is None:
            return None
        return UnchangedJob(stop_signal=self.stop_signal or "SIGTERM", progress=self.progress)
