"""Runs the processes of one start of a job on one node: brings its ranks up, waits for them, says how they ended.

The same code on every engine: forked by the local one, a task of `srun` in Slurm, called by an agent on each node of
Ray, later the entrypoint of a pod. `supervisor.py` is the process; `parts.py` is how the parts of a start on several
nodes find and end each other; `__main__.py` runs a part in the foreground from a file. Standard library only.
"""
