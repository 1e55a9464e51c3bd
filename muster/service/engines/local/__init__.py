"""Processes on this machine: the engine, and the supervisor that each start has.

`engine` is what the daemon uses. `supervisor`, `journal` and `processes` run in a small process of their own and
import the standard library only.
"""
