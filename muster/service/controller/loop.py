"""The reconcile loop: collect what runs, ask the scheduler what should run, carry out the difference.

The ledger holds the plan; `starts` hold what really runs. A job that should leave is asked to stop; one that
should start waits until its GPUs are empty. So the ledger has a decision at once, and the machines follow. Every
change is on disk before it is acted upon, and every command may be repeated. So the daemon may be killed at any
moment: a new one finds its starts through the engine and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import structlog

from muster.service.controller.active_jobs import ActiveJobs
from muster.service.controller.conditions import Conditions
from muster.service.controller.engine_commands import EngineCommands
from muster.service.controller.executor import Executor
from muster.service.controller.intake import Intake
from muster.service.controller.node_tracker import NodeTracker
from muster.service.controller.planner import Planner
from muster.service.controller.request_handler import RequestHandler
from muster.service.controller.status_collector import StatusCollector
from muster.service.daemon_status import MACHINE, STORE, DaemonStatus
from muster.service.engines import Engine, StartRefused
from muster.service.engines.thread import EngineThread
from muster.service.limits import Limits
from muster.service.store import Store, StoreUnavailable
from muster.service.submission_rules import SubmissionRules
from muster.service.tenant_shares import gpu_limits

_TURN_SECONDS = 0.2
"""Between two looks at the machines."""
_SHORTEST_PAUSE = 0.03
"""Between two turns, however many submissions come: they are taken together."""
_RETRY_SECONDS = 1.0

log = structlog.get_logger()


class Controller:
    """One cluster, one scheduler, one engine."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        status: DaemonStatus,
        home: Path,
        limits: Callable[[], Limits] = Limits,
    ) -> None:
        """`limits`: of users and tenants, as they are now."""
        self.jobs = ActiveJobs(status)
        self._jobs, self._store, self._status = self.jobs, store, status
        self._engine = EngineThread(engine, status.wake)
        self._commands = EngineCommands(self.jobs, engine.capabilities, home)
        self._collector = StatusCollector(self.jobs, store, self._commands, home)
        self._requests = RequestHandler(self.jobs, store)
        rules = SubmissionRules(store, status.policy, limits)
        self._intake = Intake(self.jobs, store, self._commands, rules)
        self._nodes = NodeTracker(self.jobs, store, status, self._collector)
        self._planner = Planner(self.jobs, store, status)
        self._executor = Executor(
            self.jobs,
            self._commands,
            gpu_limits(status.policy.describe()),
            can_resize=engine.capabilities.can_resize,
        )
        self._of_store, self._of_machine = Conditions(status, STORE), Conditions(status, MACHINE)
        self._looked_at = -inf
        self._stopping = False

    def run(self) -> None:
        """Run turns until `stop`; jobs run on without it. StoreTaken if another daemon has the store now."""
        self._engine.start()
        try:
            self._run()
        finally:
            self._engine.stop()

    def _run(self) -> None:
        while not self._stopping:
            if self._status.ready:
                well = self.turn()
            else:
                well = self._is_done(self.recover)
                self._status.ready = well
            time.sleep(_SHORTEST_PAUSE)
            left = min(_TURN_SECONDS, self._planner.next_wake - self._store.now())
            self._status.wait(max(left, 0.001) if well else _RETRY_SECONDS)

    def stop(self) -> None:
        """Stop the loop after this turn."""
        self._stopping = True
        self._status.wake()

    def recover(self) -> None:
        """Find what an earlier daemon left, and note what this one serves."""
        self._store.configure(self._status.configuration(), self._store.now())
        self._collector.recover()

    def turn(self) -> bool:
        """Collect, decide if it is due, write to the store, send commands.

        False: the store or the machine did not let it; it is to be tried again. What it has found out is kept until
        it is written down, and before that nothing is acted upon and nothing new is found out.
        """
        return self._is_done(self._turn)

    def _is_done(self, part: Callable[[], None]) -> bool:
        """Whether a part of the work could be done; if not, the condition says why."""
        try:
            part()
        except StoreUnavailable as error:
            self._of_store.set("the store cannot be used: nothing is begun or ended meanwhile", error)
            return False
        except OSError as error:
            self._of_machine.set(_refusal(error), error)
            return False
        else:
            self._of_store.clear()
            return True
        finally:
            self._status.looked_at, self._status.deciding = time.monotonic(), False

    def _turn(self) -> None:
        self._store.keep_claim()
        failures = self._write_and_send()  # What an earlier turn could not.
        now = self._store.now()
        looks = now - self._looked_at >= _TURN_SECONDS  # Not at each of many submissions.
        if looks:
            self._look(now)
        if self._looked_at == -inf:  # Nothing is known yet of what runs.
            return
        self._requests.admit()
        self._requests.apply_requests(now)
        self._requests.apply_priorities()
        self._requests.end_overdue(now)
        self._nodes.close_nodes(now)
        self._nodes.keep_on_closed_nodes()
        self._nodes.hold_back(now)
        if self._planner.is_due(now):
            self._status.deciding = True
            self._planner.decide(now)
            now = self._store.now()
        self._planner.note_use(now)
        self._executor.carry_out(now)
        failures += self._write_and_send()
        if looks and not failures and self._commands.all_ended:
            self._of_machine.clear()

    def _look(self, now: float) -> None:
        """Take what the engine has found since the last look, if there is anything new."""
        if self._collector.wants_reports(now):
            self._engine.ask_for_reports()
        view = self._engine.newest_view()
        heard = self._engine.reports()
        self._collector.note_reports(heard, now - self._engine.reports_age_seconds)
        if view is not None:
            self._looked_at = now
            self._collector.observe(view, now - self._engine.age_seconds, now)
            untaken = self._intake.take(view)
            self._status.untaken = (*view.untaken, *untaken)
            self._status.gpu_use = view.gpu_use
            self._status.clocks = view.clocks
            if self._nodes.see(view.nodes, now):
                self._planner.begin_again()
        if self._looked_at > -inf:
            self._collector.take_reports(now)

    def _write_and_send(self) -> int:
        """Commit what is new, then send the commands that follow from it; how many are known to have failed."""
        self._store.commit(self._jobs.changes)
        commands = self._jobs.commands
        self._jobs.nothing_new()
        self._engine.watch(self._collector.report_requests())
        self._engine.send(commands)
        return self._note_results()

    def _note_results(self) -> int:
        """Note which commands the engine has carried out; a failed one costs its job only, and is sent again."""
        failed = 0
        for result in self._engine.results():
            self._commands.ended(result.command, self._store.now(), result.error)
            if isinstance(result.error, StartRefused):
                log.warning("the engine refuses a start", job=result.command.job, error=str(result.error))
            elif result.error is not None:
                failed += 1
                self._of_machine.set(_refusal(result.error), result.error)
        return failed


def _refusal(error: Exception) -> str:
    """The error as a sentence that names no job, user or host."""
    if cause := getattr(error, "cause", ""):  # of an engine
        return f"the engine fails: {cause}"
    return f"this machine refuses: {(isinstance(error, OSError) and error.strerror) or type(error).__name__}"
