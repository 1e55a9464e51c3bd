"""The loop of the real world: look at what is, ask the scheduler what should be, carry out the difference.

`loop` is the whole of a turn; its parts are `observing`, `owners`, `deciding` and `acting`, which share `living`.
"""

from muster.service.controller.loop import Controller

__all__ = ["Controller"]
