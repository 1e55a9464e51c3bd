"""Processes on this machine: the engine, and the shepherd that each start has.

`engine` is what the daemon uses. `shepherd`, `journal` and `processes` run in a small process of their own and
import the standard library only.
"""
