"""Muster's own control groups: CPU, memory, devices and an end for all processes of a job at once.

    cgroups, how = find_cgroups()
    if cgroups is not None:
        group = cgroups.group("17")
        group.set_cpu_quota(1.5)
        process = subprocess.Popen(group.entering(["python", "train.py"]))

Groups stand in folders `muster/NAME.group`: with cgroup v2 where this process, or one above it, may hand out
the controllers; else with v1. Only what a caller puts into a group is in it. A group outlives the process
that made it and is found again by its name.
"""

from muster.cgroups.device_filter import DeviceNumber
from muster.cgroups.finding import Cgroups, find_cgroups
from muster.cgroups.group import LEAST_QUOTA_CORES, Ability, CgroupError, Group

__all__ = ["LEAST_QUOTA_CORES", "Ability", "CgroupError", "Cgroups", "DeviceNumber", "Group", "find_cgroups"]
