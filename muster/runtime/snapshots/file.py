"""The file of a decision snapshot: its fields, and how it is written and read.

docs/reference/snapshots.md describes the fields.
The file is JSON. `version` grows when a field changes its meaning; a file of another version is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from muster.files import read_text, write_aside
from muster.problems import InputError, Problem

FORMAT: Literal["muster snapshot"] = "muster snapshot"
VERSION: Literal[1] = 1
_SHOWN = 20

Count = Annotated[int, Field(ge=0, le=10**18)]
Whole = Annotated[int, Field(ge=0, le=10_000_000)]
MOST_OF_A_NODE = 1e12
"""Of any resource: in millionths it is a whole number of 64 bits."""
Amount = Annotated[float, Field(ge=0, le=MOST_OF_A_NODE)]
Columns = dict[str, list[Any]]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SavedAllocation(_Table):
    """What a job holds on one node, in one role."""

    node: str
    gpu_ids: list[Count]
    cpus: Amount
    memory_gb: Amount
    storage_gb_per_s: Amount
    further: list[Amount]
    milli: Annotated[int, Field(ge=1, le=1000)]
    role: Annotated[int, Field(ge=0, le=1)]
    group: Annotated[int, Field(ge=-1)]


class SavedScheduler(_Table):
    """Which scheduler decided, and what it remembered."""

    name: str
    settings: dict[str, str]
    """As `--set` takes them; those that are not here have their defaults."""
    state: str
    """Its memory before the decision: a restricted pickle, in base 64."""


class SavedNodes(_Table):
    """What nodes cannot give to jobs."""

    down: list[str]
    held_back: list[SavedAllocation]
    """Held by jobs that are not Muster's."""
    releasing: list[SavedAllocation]
    """Of jobs that are gone, and not free yet."""
    busy: list[tuple[str, Count, float]]
    """Node, GPU and how many GPUs the jobs packed on it would keep busy."""
    even_gangs: bool
    delayed_release: bool


class SavedNames(_Table):
    """What the numbers in the columns of jobs stand for."""

    models: list[str]
    tenants: list[str]
    users: list[str]
    partitions: list[str]
    qos: list[str]
    constraints: list[list[str]]
    """The nodes that jobs of each constraint may use."""


class SavedJobs(_Table):
    """The jobs that the scheduler was asked about, and what is known of the others."""

    numbers: Whole
    """Of the table of jobs: the scheduler's memory goes by the numbers of jobs."""
    names_are_numbers: bool
    """Whether all ids are whole numbers, which some orders break ties by."""
    some_pinned: bool
    """Whether the table may have jobs that may not be stopped at any time."""
    some_request: bool
    """Whether it may have jobs that request more than GPUs."""
    number: list[Whole]
    id: list[str]
    spec: Columns
    status: Columns
    sized: Columns
    ring_seconds: list[list[list[float]]]
    others: Columns
    """Jobs that it was not asked about: ended and held ones."""


Size: TypeAlias = tuple[Whole, Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]


class SavedClasses(_Table):
    """The classes of jobs with equal demands in the order in which they were met: ties between jobs go by it."""

    sizes: list[Size]
    classes: list[list[Count]]
    below_share: list[list[Count]]
    sizes_below_share: list[Size] = Field(default_factory=list)


class SavedNetwork(_Table):
    """What is known of the network; without models, all places are alike."""

    models: list[dict[str, Any] | None]
    flavour: str
    congestion: float
    contention: bool = False


class SavedPlace(TypedDict):
    """Where a job is placed by an action, with all that it gets there."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    node: str
    gpu_ids: list[int]
    cpus: float


class SavedAction(TypedDict):
    """What is done with a job."""

    job: str
    action: str
    allocations: list[SavedPlace]
    others: list[str]


class SavedPending(TypedDict):
    """Why a job waits."""

    job: str
    reason: str
    parameters: dict[str, Any]


class SavedDecision(_Table):
    """What was decided."""

    actions: list[SavedAction]
    pending: list[SavedPending]
    lease_ends: dict[str, float | str]
    next_wake: float | str
    stable_until: float | str
    wake_on: int
    notes: list[str]


class SnapshotFile(_Table):
    """A decision's whole input, and the decision."""

    format: Literal["muster snapshot"]
    version: Literal[1]
    muster_version: str
    source: Literal["simulation", "service"]
    time: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Seconds on the clock of the run or the store."""
    triggers: Count
    resize_restarts: bool
    keeps_amounts: bool
    scheduler: SavedScheduler
    cluster: dict[str, Any]
    nodes: SavedNodes
    names: SavedNames
    models: list[dict[str, Any] | None]
    speeds_by_gpu_type: bool
    classes: SavedClasses
    network: SavedNetwork | None
    jobs: SavedJobs
    holds: dict[str, list[SavedAllocation]]
    """By number of the job."""
    decision: SavedDecision

    def text(self) -> str:
        """The file's content: JSON, the same bytes for the same input."""
        return json.dumps(self.model_dump(), ensure_ascii=False, allow_nan=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        with write_aside(path) as aside:
            aside.write_text(self.text(), encoding="utf-8")


def read_snapshot(path: Path) -> SnapshotFile:
    """The snapshot of a file. InputError says which field is wrong."""
    text = read_text(path)
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        row = getattr(error, "lineno", None)
        raise InputError(
            Problem(str(path), f"allowed: a file of muster snapshot ({error})", row=row)
        ) from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        what = "allowed: a file that muster snapshot or muster simulate --snapshot-at wrote"
        raise InputError(Problem(str(path), what))
    if fields.get("version") != VERSION:
        what = f"allowed: {VERSION}; another release of Muster wrote this file"
        raise InputError(Problem(str(path), what, column="version", found=fields.get("version")))
    try:
        return SnapshotFile.model_validate(fields)
    except ValidationError as error:
        problems = [
            Problem(str(path), one["msg"], column=".".join(map(str, one["loc"])))
            for one in error.errors(include_url=False, include_input=False)[:_SHOWN]
        ]
        raise InputError(*problems) from None
