"""Slurm's Fair Tree: the fair-share factor of each user, by rank in a tree of accounts."""

from dataclasses import dataclass

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Floats, floats

import numpy as np


@dataclass(frozen=True)
class Association:
    """A user in an account: the names from the root on, the user's last, each with its raw shares."""

    path: tuple
    shares: tuple


cdef struct Branch:
    int64_t parent
    int64_t number  # of the user; of an account -1
    double share  # among siblings; raw shares until all are known
    double usage
    double level


cdef struct Sibling:
    double level
    int64_t branch
    int64_t order
    bint is_account


cdef bint _is_before(const Sibling& one, const Sibling& other) noexcept nogil:
    """Higher levels first, users before accounts."""
    if one.level != other.level:
        return one.level > other.level
    return one.order < other.order if one.is_account == other.is_account else other.is_account


cdef class FairTree:
    """Accounts and users with their shares, which rank users as often as usage changes."""

    cdef readonly tuple associations
    cdef vector[Branch] _branches
    cdef vector[vector[int64_t]] _children  # by branch, in the order in which they were named
    cdef vector[vector[int64_t]] _paths  # by association, from the first account to the user

    def __init__(self, associations):
        cdef int64_t branch, number
        self.associations = tuple(associations)
        self._add(-1, 1.0)
        branch = self._add(0, 1.0)
        self._branches[branch].number = len(self.associations)
        known = {(0, "root", True): branch}
        for number, one in enumerate(self.associations):
            branch = 0
            self._paths.push_back(vector[int64_t]())
            last = len(one.path) - 1
            for depth, (name, shares) in enumerate(zip(one.path, one.shares, strict=True)):
                key = (branch, name, depth == last)
                if key not in known:
                    known[key] = self._add(branch, shares)
                branch = known[key]
                self._paths.back().push_back(branch)
            self._branches[branch].number = number
        self._set_shares()

    def __repr__(self):
        return f"FairTree({self.associations!r})"

    def __reduce__(self):
        return FairTree, (self.associations,)

    cdef int64_t _add(self, int64_t parent, double shares):
        cdef Branch branch
        branch.parent, branch.number, branch.share, branch.usage, branch.level = parent, -1, shares, 0.0, INFINITY
        self._branches.push_back(branch)
        self._children.push_back(vector[int64_t]())
        if parent >= 0:
            self._children[parent].push_back(self._branches.size() - 1)
        return self._branches.size() - 1

    cdef void _set_shares(self):
        cdef double total
        cdef size_t parent
        for parent in range(self._children.size()):
            total = 0.0
            for child in self._children[parent]:
                total += self._branches[child].share
            for child in self._children[parent]:
                self._branches[child].share = self._branches[child].share / total if total > 0 else 0.0

    def factors(self, usage):
        """The rank of each user over the number of users, the root's own user included.

        The user furthest below its share has 1. Siblings are ranked by level = (share among siblings) / (usage among
        siblings). An account's users come before those of the next one. Users that tie have one rank, and accounts that
        tie are ranked as one.
        """
        cdef Floats amounts = floats(usage)
        cdef size_t at
        cdef int64_t count = self._paths.size() + 1
        cdef int64_t[2] ranks
        found = np.zeros(count)
        cdef Floats factors = floats(found)
        for at in range(self._branches.size()):
            self._branches[at].usage = 0.0
        for at in range(self._paths.size()):
            self._branches[0].usage += amounts.at[at]
            for branch in self._paths[at]:
                self._branches[branch].usage += amounts.at[at]
        for at in range(1, self._branches.size()):
            self._set_level(at)
        ranks[0] = ranks[1] = count
        self._rank(self._children[0], ranks, False, factors.at, count)
        return found[: count - 1]

    cdef void _set_level(self, size_t at) noexcept nogil:
        cdef double of_all = self._branches[self._branches[at].parent].usage
        cdef double used = self._branches[at].usage / of_all if of_all > 0 else 0.0
        cdef double share = self._branches[at].share
        self._branches[at].level = share / used if used > 0 else (INFINITY if share > 0 else 0.0)

    cdef void _rank(
        self, vector[int64_t] siblings, int64_t* ranks, bint tied, double* factors, int64_t count
    ) noexcept nogil:
        """Rank siblings, best first. `ranks` are the rank of the last user and the one after it.

        `tied`: the first of them ties with the user before.
        """
        cdef vector[Sibling] ordered
        cdef vector[int64_t] merged
        cdef Sibling one
        cdef size_t at = 0
        cdef double before = 0.0
        for branch in siblings:
            one.level, one.branch = self._branches[branch].level, branch
            one.order, one.is_account = ordered.size(), self._branches[branch].number < 0
            ordered.push_back(one)
        sort(ordered.begin(), ordered.end(), &_is_before)
        while at < ordered.size():
            one = ordered[at]
            if at > 0:
                tied = one.level == before
            before = one.level
            at += 1
            if not one.is_account:
                if not tied:
                    ranks[0] = ranks[1]
                factors[self._branches[one.branch].number] = (<double>ranks[0]) / count
                ranks[1] -= 1
                continue
            merged = self._children[one.branch]
            while at < ordered.size() and ordered[at].level == before:
                merged.insert(
                    merged.end(), self._children[ordered[at].branch].begin(), self._children[ordered[at].branch].end()
                )
                at += 1
            self._rank(merged, ranks, tied, factors, count)
