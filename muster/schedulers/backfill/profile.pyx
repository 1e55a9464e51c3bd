"""What is free on each node from now on, as far as time limits and reservations say; where and when a job first fits.

The future is cut into slots, each with the free amounts of all nodes. Times are seconds, amounts those of the ledger.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Bools, Floats, Ints, bools, floats, ints
from muster.cluster.ledger_core cimport GPU, MICRO

import numpy as np


cdef struct Fit:
    int64_t gpus
    int64_t node


cdef struct Ending:
    double end
    Py_ssize_t job


cdef bint _sooner(const Ending& one, const Ending& other) noexcept nogil:
    return one.end < other.end


cdef bint _larger(const Fit& one, const Fit& other) noexcept nogil:
    return one.node < other.node if one.gpus == other.gpus else one.gpus > other.gpus


cdef class ReservationProfile:
    """Free amounts by slot of time, node and resource. `share` is what a GPU of each node has beside it."""

    cdef int64_t _nodes, _resources
    cdef Ints _share
    cdef object _kept
    cdef vector[double] _begins  # of the slots, ascending; the last has no end
    cdef vector[vector[int64_t]] _free
    cdef vector[int64_t] _least
    cdef vector[Fit] _fits, _chosen

    def __init__(self, free, share, double now):
        flat = np.ascontiguousarray(free, np.int64).reshape(-1)
        shares = np.ascontiguousarray(share, np.int64).reshape(-1)
        cdef Ints amounts = ints(flat)
        self._nodes, self._resources = free.shape
        self._kept, self._share = shares, ints(shares)
        self._begins.push_back(now)
        self._free.resize(1)
        self._free[0].assign(amounts.at, amounts.at + amounts.size)

    def add_running(self, ends, first, nodes, amounts):
        """Jobs that run give back what they hold at these ends; the rows of the job at `i` begin at `first[i]`."""
        cdef Floats end = floats(ends)
        cdef Ints start = ints(first), node = ints(nodes), amount = ints(amounts.reshape(-1))
        cdef vector[Ending] order
        cdef Ending one
        cdef Py_ssize_t at, row
        cdef int64_t resource
        cdef vector[int64_t]* free
        for at in range(end.size):
            one.end, one.job = end.at[at], at
            if one.end < INFINITY:
                order.push_back(one)
        sort(order.begin(), order.end(), &_sooner)
        self._begins.reserve(order.size() + 1)
        for one in order:
            if one.end > self._begins.back():
                self._begins.push_back(one.end)
                self._free.push_back(vector[int64_t](self._free.back()))
            free = &self._free.back()
            for row in range(start.at[one.job], start.at[one.job + 1]):
                for resource in range(self._resources):
                    free[0][node.at[row] * self._resources + resource] += amount.at[row * self._resources + resource]

    def change(self, double begin, double end, nodes, amounts, int64_t sign):
        """Add amounts (sign 1) on nodes from begin to end, or take them away (-1)."""
        cdef Ints node = ints(nodes), amount = ints(amounts.reshape(-1))
        cdef size_t slot
        cdef Py_ssize_t at
        cdef int64_t resource
        if begin >= end:
            return
        self._split(begin)
        self._split(end)
        for slot in range(self._begins.size()):
            if begin <= self._begins[slot] < end:
                for at in range(node.size):
                    for resource in range(self._resources):
                        self._free[slot][node.at[at] * self._resources + resource] += (
                            sign * amount.at[at * self._resources + resource]
                        )

    def holds(self, double begin, double end, nodes, amounts):
        """Whether these amounts are free on the nodes from begin to end."""
        cdef Ints node = ints(nodes), amount = ints(amounts.reshape(-1))
        cdef size_t slot
        cdef Py_ssize_t at
        cdef int64_t resource
        for slot in range(self._begins.size()):
            if self._begins[slot] >= end or (slot + 1 < self._begins.size() and self._begins[slot + 1] <= begin):
                continue
            for at in range(node.size):
                for resource in range(self._resources):
                    if self._free[slot][node.at[at] * self._resources + resource] < amount.at[
                        at * self._resources + resource
                    ]:
                        return False
        return True

    def earliest(self, int64_t gpus, need, double limit, allowed, int64_t most_nodes, double latest):
        """The first start at which so many GPUs, with what each needs, are free for the limit; None: not by `latest`.

        Returns the start, the nodes, and the amounts on each. A node is filled before the next: one that holds the
        whole job, the fullest that does, else the emptiest first, on at most `most_nodes`.
        """
        cdef Ints needs = ints(need)
        cdef Bools may_use = bools(allowed)
        cdef size_t slot
        for slot in range(self._begins.size()):
            if self._begins[slot] > latest:
                return None
            if self._fits_from(slot, gpus, needs.at, limit, may_use.at, most_nodes):
                return self._begins[slot], *self._place(needs.at)
        return None

    cdef object _place(self, int64_t* need):
        cdef size_t at
        cdef int64_t resource
        nodes = np.empty(self._chosen.size(), np.int64)
        amounts = np.zeros((self._chosen.size(), self._resources), np.int64)
        for at in range(self._chosen.size()):
            nodes[at] = self._chosen[at].node
            amounts[at, GPU] = self._chosen[at].gpus * MICRO
            for resource in range(1, self._resources):
                amounts[at, resource] = self._chosen[at].gpus * self._need_on(self._chosen[at].node, resource, need)
        return nodes, amounts

    cdef int64_t _need_on(self, int64_t node, int64_t resource, int64_t* need) noexcept nogil:
        """Millionths of a resource beside one GPU of a node: below 0, the node's share, but at least the amount."""
        cdef int64_t amount = need[resource]
        if amount < 0:
            amount = max(self._share.at[node * self._resources + resource], -1 - amount)
        return amount

    cdef bint _fits_from(
        self, size_t first, int64_t gpus, int64_t* need, double limit, uint8_t* may_use, int64_t most_nodes
    ) noexcept nogil:
        """Whether a job that starts with a slot has room until its limit; its place in `_chosen`."""
        cdef double end = self._begins[first] + limit
        cdef size_t slot = first, at
        cdef int64_t node, resource, amount, left = gpus, best = -1
        cdef Fit fit
        self._least = self._free[first]
        slot += 1
        while slot < self._begins.size() and self._begins[slot] < end:
            for at in range(self._least.size()):
                self._least[at] = min(self._least[at], self._free[slot][at])
            slot += 1
        self._fits.clear()
        self._chosen.clear()
        for node in range(self._nodes):
            if not may_use[node]:
                continue
            fit.node, fit.gpus = node, self._least[node * self._resources + GPU] // MICRO
            for resource in range(1, self._resources):
                amount = self._need_on(node, resource, need)
                if amount > 0:
                    fit.gpus = min(fit.gpus, self._least[node * self._resources + resource] // amount)
            if fit.gpus > 0:
                self._fits.push_back(fit)
        sort(self._fits.begin(), self._fits.end(), &_larger)
        while left > 0 and not self._fits.empty() and <int64_t> self._chosen.size() < most_nodes:
            best = 0
            for at in range(self._fits.size()):
                if self._fits[at].gpus < left:
                    break
                if self._fits[at].gpus < self._fits[best].gpus or at == 0:
                    best = at
            fit = self._fits[best]
            fit.gpus = min(fit.gpus, left)
            left -= fit.gpus
            self._chosen.push_back(fit)
            self._fits.erase(self._fits.begin() + best)
        return left == 0

    cdef void _split(self, double moment) noexcept nogil:
        """Let a slot begin at this moment, unless it is before the first."""
        cdef size_t at = self._begins.size()
        cdef vector[int64_t] copied
        if moment == INFINITY or moment <= self._begins[0]:
            return
        while at > 0 and self._begins[at - 1] > moment:
            at -= 1
        if self._begins[at - 1] == moment:
            return
        copied = self._free[at - 1]
        self._begins.insert(self._begins.begin() + at, moment)
        self._free.insert(self._free.begin() + at, copied)
