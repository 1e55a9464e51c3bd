"""Nodes of a Ray cluster: Ray says which there are, an agent on each of them runs the jobs as processes.

`engine` is what the daemon uses. `link` is a process of its own that speaks with Ray, so that Ray's library, which ends
a process that has lost its node, never ends the daemon. `agent` runs on each node, within Ray.
"""
