"""Starts on the nodes of a Ray cluster, each part run by the agent of its node.

A start is written down before anything else happens, and with that it is launched: its parts are delivered at once, or
at a later poll if a node does not answer. So a start on several nodes never comes up by halves for good.

Agents remember their starts on their own disks and are asked at each poll. What they have and the daemon does not (a
start that was given up, whose node is back) is ended and forgotten there.

A node that Ray does not list as alive is away. Its starts stay as they were known for as long as their lease can last,
counted from when this engine saw the node away first: the agent renews a lease only after the same head has called the
node alive, so by then all of it has ended. Only then they are lost. So it is with a start that the agent of its node
does not know any more: another machine may have the name of one that died, or was cut off. While the head does not
answer nothing is known, and `poll` raises OSError.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from os import geteuid, urandom
from pathlib import Path

import structlog

from muster.extras import DISTRIBUTION
from muster.files import write_aside
from muster.gpu_use import GpuUse
from muster.service.engines.clocks import MachineClocks
from muster.service.engines.identity import identity_of
from muster.service.engines.interface import (
    Command,
    EngineCapabilities,
    EngineNode,
    EngineView,
    Exit,
    ForgetStart,
    KillStart,
    Launch,
    Observed,
    ResizeStart,
    SendNotice,
)
from muster.service.engines.job_folder import make_folder, make_job_folder
from muster.service.engines.parts import meeting_folder, parts_of
from muster.service.engines.ray.connection import NodeUnreachable, RayConnection, RayError
from muster.service.engines.ray.messages import LEASE_SECONDS, AgentReply, AgentSetup, Look, RayNode, Turn
from muster.service.engines.ray.nodes import engine_node
from muster.service.engines.ray.records import PartRecord, RayRecords, RayStart
from muster.service.engines.run_folders import ReadsRunFolders

_MARGIN_SECONDS = 5.0
"""A node is given up so long after its lease: supervisors look at it once a second, and clocks do not run alike."""
_FIRST_TURNS = (0.0, 1.0, 3.0, 5.0, 10.0, 10.0)
"""Seconds before each of the first turns: agents may start slowly, and Ray lists for a moment those that have ended."""
_SILENT_SECONDS = 20.0
"""For which a node with starts stays listed that does not answer: what is missing has its jobs moved away at once."""

log = structlog.get_logger()


class RayEngine(ReadsRunFolders):
    """Starts in one Ray cluster. To be used by one thread."""

    capabilities = EngineCapabilities(
        can_resize=True, runs_as_users=True, poll_seconds=0.5, pending_limit_seconds=10.0
    )

    lease_seconds = LEASE_SECONDS

    def __init__(self, folder: Path, connection: RayConnection) -> None:
        """Find the starts that are there. OSError if Ray cannot be reached, or if no node answers."""
        self._connection = connection
        self._records = RayRecords(folder / "starts")
        self._owner, self._session = _counted(folder / "owner")
        self._version = metadata.version(DISTRIBUTION)
        self._nodes: dict[str, RayNode] = {}
        """Those that are alive, by name."""
        self._answered: dict[str, tuple[float, EngineNode]] = {}
        """Nodes as they were when they answered last, and when (monotonic) that was."""
        self._clocks = MachineClocks()
        self._gpu_use: Mapping[str, Sequence[GpuUse | None]] = {}
        self._asked = 0.0
        """When (monotonic) the agents were asked last."""
        self._unlisted: set[tuple[int, int, str]] = set()
        """Job, epoch and node of the parts that their agent had and does not know any more."""
        self._away: dict[tuple[int, int, str], tuple[object, float]] = {}
        """Since when (monotonic) parts are unlisted or on a node that is away, and by which link and with which ids."""
        self._problems: Mapping[str, str] = {}
        self._orphans: dict[str, list[Command]] = {}
        """What ends and removes starts that agents have and the daemon does not, by node."""
        for pause_seconds in _FIRST_TURNS:
            time.sleep(pause_seconds)
            look = self._turn({})
            if look.replies:
                break
        else:
            problems = [f"node {name}: {what}" for name, what in self._problems.items()]
            raise RayError("; ".join(problems) or f"Ray at {connection.address} has no node with GPUs")
        self.enforces = "; ".join(sorted({reply.enforces for reply in look.replies.values()}))

    def carry_out(self, commands: Sequence[Command]) -> Sequence[Exception | None]:
        """Carry out a turn's commands: all agents get theirs at the same time."""
        errors: list[Exception | None] = [None] * len(commands)
        sent: dict[str, list[Command]] = {}
        places: dict[str, list[int]] = {}
        forgotten: list[RayStart] = []
        for at, command in enumerate(commands):
            try:
                for node, part in self._parts_of(command, forgotten).items():
                    sent.setdefault(node, []).append(part)
                    places.setdefault(node, []).append(at)
            except Exception as error:
                errors[at] = error
        look = self._turn(sent)
        for node, indices in places.items():
            failures = self._failures(node, look, len(indices))
            for at, failure in zip(indices, failures, strict=True):
                # A launch is carried out once it is written down.
                if failure is not None and not isinstance(commands[at], Launch | ForgetStart):
                    errors[at] = failure
        for record in forgotten:
            self._records.drop(record)
        return errors

    def poll(self) -> EngineView:
        """Ask all agents; have them do what is still to be done."""
        commands = {name: list(orphans) for name, orphans in self._orphans.items()}
        for record in self._records:
            for part in record.parts:
                if part.node in self._nodes and (due := self._due(record, part)) is not None:
                    commands.setdefault(part.node, []).append(due)
        self._records.keep_changed()
        self._turn(commands)
        starts = [record.observed() for record in self._records]
        clocks = self._clocks.differences()
        return EngineView(starts, self._usable(), gpu_use=self._gpu_use, clocks=clocks)

    def _usable(self) -> list[EngineNode]:
        """Return the nodes that answered now, and those with starts that are silent for a short time.

        One that Ray drains is left out, so its jobs are moved away while its agent is still there.
        """
        leaving = {name for name, node in self._nodes.items() if node.is_draining}
        busy = {part.node for record in self._records for part in record.parts if part.lives}
        return [
            node
            for name, (moment, node) in sorted(self._answered.items())
            if name not in leaving
            and (moment == self._asked or (name in busy and self._asked - moment < _SILENT_SECONDS))
        ]

    def _turn(self, commands: Mapping[str, Sequence[Command]]) -> Look:
        """Ask the agents once, and take in what they answer."""
        self._connection.open()
        session = (self._session, self._connection.starts)
        setup = AgentSetup(self._owner, session, self._version, self.lease_seconds)
        asked = time.time()
        look = self._connection.ask(Turn(setup, commands))
        problems = dict(look.problems)
        replies = dict(look.replies)
        for name, reply in look.replies.items():
            if reply.account != geteuid():
                del replies[name]
                problems[name] = f"Ray runs there as account {reply.account}, the daemon as {geteuid()}"
        for name, what in problems.items():
            if self._problems.get(name, "").partition("(")[0] != what.partition("(")[0]:
                log.warning("a node of Ray cannot be used", node=name, error=what)
        self._problems = problems
        self._nodes = {node.name: node for node in look.nodes}
        self._asked = now = time.monotonic()
        self._answered |= {node.name: (now, engine_node(node)) for node in look.nodes if node.name in replies}
        self._gpu_use = {name: reply.gpu_use for name, reply in replies.items()}
        for name, reply in replies.items():
            self._clocks.note(name, reply.now, asked)
        self._clocks.keep(self._nodes.keys())
        self._take_in(replies, commands)
        self._watch_away(look)
        self._records.keep_changed()
        return replace(look, replies=replies, problems=problems)

    def _take_in(self, replies: Mapping[str, AgentReply], sent: Mapping[str, Sequence[Command]]) -> None:
        """Bring all records up to date."""
        self._orphans = {}
        self._unlisted -= {one for one in self._unlisted if one[2] in replies}
        listed = {
            name: {(one.job, one.epoch): self._here(name, one) for one in reply.starts}
            for name, reply in replies.items()
        }
        for record in self._records:
            for part in record.parts:
                if part.node in listed and part.lives:
                    self._update(record, part, listed[part.node].get(record.key))
                elif part.lives and part.known is None:
                    part.obstacle = self._problems.get(part.node, "away")
        for name, reply in replies.items():
            for command, error in zip(sent.get(name, ()), reply.errors, strict=True):
                launched = self._records.get(command.job, command.epoch)
                if isinstance(command, Launch) and launched is not None:
                    part = next(part for part in launched.parts if part.node == name)
                    part.obstacle = "" if error is None else str(error)
            orders = [self._order_for_orphan(name, one) for one in listed[name].values()]
            self._orphans[name] = [order for order in orders if order is not None]

    def _here(self, node: str, one: Observed) -> Observed:
        """Return a start of a node by this machine's clock."""
        return replace(one, since=self._clocks.here(node, one.since))

    def _update(self, record: RayStart, part: PartRecord, one: Observed | None) -> None:
        """Note what the agent of its node says of a part; None: it does not have it."""
        if one is not None:
            record.changed |= part.known != one or not part.delivered
            part.known, part.delivered = one, True
        elif part.delivered:
            self._unlisted.add((*record.key, part.node))
        elif record.stopping:
            part.end(Exit.STOPPED, "stopped before it had a process")
            record.changed = True

    def _order_for_orphan(self, node: str, one: Observed) -> Command | None:
        """Return what ends or removes a start of an agent for which the daemon has no use; None: it has."""
        record = self._records.get(one.job, one.epoch)
        part = record and next((part for part in record.parts if part.node == node), None)
        if not part:
            return KillStart(one.job, one.epoch) if one.ended is None else ForgetStart(one.job, one.epoch)
        return KillStart(one.job, one.epoch) if one.ended is None and not part.lives else None

    def _watch_away(self, look: Look) -> None:
        """Give up what is unlisted or on nodes that are away, once this is so for longer than a lease lasts.

        The time starts again where the head may have known the node as alive in between: with another link, or where
        Ray on that node was started again.
        """
        reached = self._nodes.keys() | self._problems.keys()
        now = time.monotonic()
        before, self._away = self._away, {}
        for record in self._records:
            for part in record.parts:
                place = (*record.key, part.node)
                if not part.lives or (part.node in reached and place not in self._unlisted):
                    continue
                seen = (self._connection.starts, look.known.get(part.node))
                known, since = before.get(place, (seen, now))
                since = since if known == seen else now
                self._away[place] = (seen, since)
                if now - since >= self.lease_seconds + _MARGIN_SECONDS:
                    what = "does not know it any more, for" if part.node in reached else "is away for"
                    part.end(Exit.LOST, f"node {part.node} {what} {now - since:.0f} s")
                    record.changed = True

    def _due(self, record: RayStart, part: PartRecord) -> Command | None:
        """Return what an agent is still to do for a part."""
        if not part.lives:
            return None
        if record.lost or (record.stopping and part.known is None and part.sent):
            return KillStart(record.job, record.epoch)
        if part.known is None and not part.delivered and not record.stopping:
            record.changed |= not part.sent
            part.sent = True
            return part.launch
        return None

    def _parts_of(self, command: Command, forgotten: list[RayStart]) -> Mapping[str, Command]:
        """Return what each node gets of a command, after noting what has to be known before."""
        match command:
            case Launch():
                return self._launched(command)
            case ForgetStart(job, epoch):
                record = self._records.get(job, epoch)
                if record is None:
                    return {}
                if record.lives:
                    raise OSError(errno.EBUSY, f"start {epoch} of job {job} is still there")
                forgotten.append(record)
                return {part.node: command for part in record.parts if part.node in self._nodes}
            case ResizeStart(job, epoch, allocations):
                parts = self._living_parts(job, epoch)
                by_node = {here.node: here for here in allocations}
                return {
                    part.node: ResizeStart(job, epoch, (by_node[part.node],))
                    for part in parts
                    if part.node in by_node
                }
            case SendNotice(job, epoch) | KillStart(job, epoch):
                if isinstance(command, KillStart) or command.stop:
                    self._stop(job, epoch)
                return {part.node: command for part in self._living_parts(job, epoch)}
            case _:
                raise NotImplementedError("jobs are submitted to Muster alone")

    def _launched(self, launch: Launch) -> Mapping[str, Command]:
        """Write a start down. OSError while an older start of the job is there."""
        if self._records.get(launch.job, launch.epoch) is not None:
            return {}
        living = self._records.living(launch.job)
        if living is not None:
            raise OSError(errno.EBUSY, f"start {living.epoch} of job {launch.job} is still there")
        addresses = []
        for here in launch.allocations:
            if here.node in self._problems or here.node not in self._nodes:
                what = self._problems.get(here.node, "away")
                raise OSError(errno.EHOSTUNREACH, f"node {here.node} cannot be used: {what}")
            addresses.append(self._nodes[here.node].address)
        _make_folders(launch)
        parts = [PartRecord(part, sent=True) for part in parts_of(launch, addresses)]
        self._records.keep(RayStart(launch.job, launch.epoch, time.time(), parts))
        return {part.node: part.launch for part in parts}

    def _stop(self, job: int, epoch: int) -> None:
        """Note that what has not begun of a start never begins."""
        record = self._records.get(job, epoch)
        if record is not None and record.lives and not record.stopping:
            record.stopping = True
            for part in record.parts:
                if part.known is None and not part.sent:
                    part.end(Exit.STOPPED, "stopped before it had a process")
            self._records.keep(record)

    def _living_parts(self, job: int, epoch: int) -> list[PartRecord]:
        record = self._records.get(job, epoch)
        return [] if record is None else [part for part in record.parts if part.lives]

    def _failures(self, node: str, look: Look, count: int) -> Sequence[Exception | None]:
        """Return how each of the commands to a node ended."""
        reply = look.replies.get(node)
        if reply is not None:
            return reply.errors
        why = look.problems.get(node, "away")
        return [NodeUnreachable(f"node {node} cannot be reached: {why}")] * count


def _make_folders(launch: Launch) -> None:
    """Make what all nodes of a start share, before any of them looks for it."""
    try:
        identity = identity_of(launch.user)
    except KeyError:  # its nodes may know the account, or report that they do not
        return
    make_job_folder(launch, identity)
    if len(launch.allocations) > 1:
        meeting = meeting_folder(launch)
        make_folder(meeting.parent, 0o711, None)
        make_folder(meeting, 0o700, identity)


def _counted(path: Path) -> tuple[str, int]:
    """Return the store's name among agents, which is made at its first use, and how often it was opened."""
    owner, _, times = path.read_text().partition(" ") if path.exists() else (urandom(8).hex(), "", "0")
    with write_aside(path) as aside:
        aside.write_text(f"{owner} {int(times) + 1}")
    return owner, int(times) + 1
