"""The reconcile loop: collect what runs, ask the scheduler what should run, carry out the difference.

`loop` is one turn. Its parts share `active_jobs`: `status_collector`, `request_handler`, `planner`, `executor`.
"""

from muster.service.controller.loop import Controller

__all__ = ["Controller"]
