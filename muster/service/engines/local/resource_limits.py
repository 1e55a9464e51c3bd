"""How grants of CPU and memory are enforced: by control groups where this machine has them, else by the supervisors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from muster.cgroups import LEAST_QUOTA_CORES, Ability, CgroupError, Cgroups, Group
from muster.service.engines.local.cpus import AssignedCpus
from muster.service.engines.local.gpu_isolation import GpuIsolation
from muster.service.machine import Machine


@dataclass(frozen=True)
class ResourceLimits:
    """What can be enforced on one machine, and how to describe it."""

    machine: Machine
    cgroups: Cgroups | None
    gpus: GpuIsolation

    @property
    def assigns_cpus(self) -> bool:
        """Whether starts get CPUs of their own: where more are declared than there are, they share all."""
        return self.machine.node.cpus <= len(self.machine.cpus)

    def limit_cpus(self, group: Group | None, cpus: float, assigned: AssignedCpus) -> list[int] | None:
        """Keeps a start to its CPUs; on which its supervisor has to keep it, if the group cannot."""
        with refusals_as_os_errors():
            if group is not None and self._can(Ability.CPU_QUOTA):
                exact = self.assigns_cpus and assigned.alone
                cores = max(cpus * self.machine.real_cpus_per_cpu, LEAST_QUOTA_CORES)
                group.set_cpu_quota(None if exact else cores)
            if not self.assigns_cpus:
                return None
            if group is not None and self._can(Ability.CPU_SET):
                group.set_cpus(assigned.cpus)
                return None
        return list(assigned.cpus)

    def limit_memory(self, group: Group | None, memory_gb: float) -> bool:
        """Sets a start's limit; False while it uses more than that, as a job gives memory back in its own time.

        Without groups there is nothing to set, the supervisor looks itself.
        """
        if group is None or not self._can(Ability.MEMORY_LIMIT):
            return True
        try:
            if group.memory_gb() > memory_gb:
                return False
            group.set_memory_limit(memory_gb)
        except (CgroupError, OSError):
            return False
        return True

    def deny_devices(self, group: Group | None, denied: Sequence[Sequence[int]]) -> None:
        """Keeps a start from opening the GPUs of others, as decided when it was launched. OSError if that fails."""
        if denied:
            if group is None:
                raise OSError("its device filter cannot be set: it has no control group")
            with refusals_as_os_errors():
                group.deny_devices([(major, minor) for major, minor in denied])

    def memory_kills(self, group: Group | None) -> int:
        """How many processes of a start the kernel has killed at its limit, as far as is known."""
        if group is None or not self._can(Ability.MEMORY_LIMIT):
            return 0
        try:
            return group.memory_kills()
        except OSError:  # the group is gone
            return 0

    def memory_bytes_to_watch(self, memory_gb: float) -> int | None:
        """The limit for the supervisor to look after; None: the kernel does."""
        return None if self._can(Ability.MEMORY_LIMIT) else int(memory_gb * 1e9)

    def describe(self) -> str:
        """As `CPU set, CPU quota and memory limit of cgroup v1`, with what is declared beyond the machine."""
        return "; ".join((self._describe_cpus(), self._describe_memory(), self.gpus.describe()))

    def _describe_cpus(self) -> str:
        declared, real = self.machine.node.cpus, self.machine.cores
        quota = f"quota of {self._group_name}" if self._can(Ability.CPU_QUOTA) else ""
        if self.assigns_cpus:
            by = (
                f"CPU set of {self._group_name}"
                if self._can(Ability.CPU_SET)
                else "affinity, which a job can undo"
            )
            return f"CPUs: {by}, and {quota} for parts of one" if quota else f"CPUs: {by}, in whole ones"
        beyond = f"{declared:g} are declared of {real:g}"
        if quota:
            return f"CPUs: {quota}, where {beyond}: one is {self.machine.real_cpus_per_cpu:.3g} of a real one"
        return f"CPUs: not enforced, as {beyond} and this machine has no quota"

    def _describe_memory(self) -> str:
        by = f"limit of {self._group_name}" if self._can(Ability.MEMORY_LIMIT) else "a look every second"
        declared, real = self.machine.node.memory_gb, self.machine.memory_gb
        return f"memory: {by}" + (
            f", though {declared:g} GB are declared of {real:.4g}" if declared > real else ""
        )

    @property
    def _group_name(self) -> str:
        return f"cgroup v{self.cgroups.version}" if self.cgroups is not None else ""

    def _can(self, ability: Ability) -> bool:
        return self.cgroups is not None and ability in self.cgroups.abilities


@contextmanager
def refusals_as_os_errors() -> Iterator[None]:
    """What the kernel refuses may succeed later, as any act on a machine."""
    try:
        yield
    except CgroupError as error:
        raise OSError(str(error)) from error
