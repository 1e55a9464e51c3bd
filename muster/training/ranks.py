"""The processes of a job agree: one alone, or the ranks of torch.distributed.

A group of its own on gloo, so that agreeing neither needs a GPU nor meets the job's own collectives.
"""

from __future__ import annotations

import atexit
import os
from typing import Any, TypeVar

from muster.problems import InputError, Problem
from muster.training import pytorch

Thing = TypeVar("Thing")


class Ranks:
    """Every method but `is_first` is called by all ranks at the same point of their steps."""

    def __init__(self, *, alone: bool = False) -> None:
        """`alone`: no scheduler started the job, so processes that do not know of each other need not agree."""
        torch = pytorch.if_loaded()
        self._distributed: Any = None
        self.rank, self.count = 0, 1
        if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
            self._distributed = torch.distributed
            self.rank, self.count = torch.distributed.get_rank(), torch.distributed.get_world_size()
        elif not alone and os.environ.get("WORLD_SIZE", "1") != "1":
            what = (
                "call torch.distributed.init_process_group before run.steps, so that the processes can agree"
            )
            raise InputError(Problem("WORLD_SIZE", what, found=os.environ["WORLD_SIZE"]))
        if self.count > 1:
            self._group = self._distributed.new_group(backend="gloo")
            # A group that outlives Python may abort the process, also one that ends because it is refused.
            atexit.register(self._end_groups)

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def largest(self, numbers: list[int]) -> list[int]:
        """The largest that any rank has at each place."""
        if self.count == 1:
            return numbers
        tensor = pytorch.load().tensor(numbers)
        self._distributed.all_reduce(tensor, op=self._distributed.ReduceOp.MAX, group=self._group)
        return [int(number) for number in tensor]

    def gathered(self, thing: Thing) -> list[Thing]:
        """What each rank has, in their order."""
        if self.count == 1:
            return [thing]
        things: list[Any] = [None] * self.count
        self._distributed.all_gather_object(things, thing, group=self._group)
        return things

    def of_first(self, thing: Thing) -> Thing:
        """What the first rank has."""
        if self.count == 1:
            return thing
        things: list[Any] = [thing]
        self._distributed.broadcast_object_list(things, src=0, group=self._group)
        (from_first,) = things
        return from_first  # type: ignore[no-any-return]

    def all_refuse(self, problems: list[Problem]) -> None:
        """Ends every process with the problems of all, so that none waits for one that has gone."""
        of_all = [problem for each in self.gathered(problems) for problem in each]
        if of_all:
            raise InputError(*dict.fromkeys(of_all))

    def part(self) -> None:
        """Before the process ends of itself: the first rank has the store that the others still ask."""
        if self.count > 1:
            self._distributed.barrier(group=self._group)

    def _end_groups(self) -> None:
        if self._distributed.is_initialized():
            self._distributed.destroy_process_group()
