"""How large one job should be: workers and parameter servers within a limit, or workers in a ring on a cluster."""

from muster.sizing.ring import SizedRing, sized_ring
from muster.sizing.servers import NEARLY, RESOURCES, Sized, sized

__all__ = ["NEARLY", "RESOURCES", "Sized", "SizedRing", "sized", "sized_ring"]
