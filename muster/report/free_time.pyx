"""How long nodes had how much free: one pass over what was held, in the order of time."""

from libc.stdint cimport int64_t

from muster.cluster.arrays cimport Floats, Ints, floats, ints

import numpy as np


cdef class _Nodes:
    """What each node holds, since when, and the seconds of each free amount so far."""

    cdef int64_t* capacity
    cdef double* since
    cdef int64_t* used
    cdef double* partly
    cdef double* wholly

    cdef inline void change(self, int64_t node, double now, int64_t amount) noexcept nogil:
        """From now on a node has so much more in use."""
        cdef int64_t free = min(max(self.capacity[node] - self.used[node], 0), self.capacity[node])
        cdef double* seconds = self.wholly if free == self.capacity[node] else self.partly
        seconds[free] += now - self.since[node]
        self.since[node] = now
        self.used[node] += amount


def seconds_free(held, capacity, double start, double end):
    """(2, most + 1): the seconds of nodes with each amount free, of nodes in use in part, and of nodes free as a whole.

    `held` is the node, begin, end and amount of each stretch; amounts and capacities are whole numbers.
    """
    node, begins, ends, amount = held
    cdef Ints node_of = ints(node), amounts = ints(amount), limits = ints(capacity)
    cdef Floats begin = floats(begins), until = floats(ends)
    first_begins, first_ends = np.argsort(begins, kind="stable"), np.argsort(ends, kind="stable")
    cdef Ints by_begin = ints(first_begins), by_end = ints(first_ends)
    since, used = np.full(limits.size, start), np.zeros(limits.size, np.int64)
    seconds = np.zeros((2, np.max(capacity, initial=0) + 1))
    cdef _Nodes nodes = _Nodes()
    cdef Py_ssize_t begun = 0, ended = 0
    cdef int64_t row
    nodes.capacity, nodes.since, nodes.used = limits.at, floats(since).at, ints(used).at
    nodes.partly, nodes.wholly = floats(seconds[0]).at, floats(seconds[1]).at
    with nogil:
        while ended < by_end.size:
            row = by_end.at[ended]
            if begun < by_begin.size and begin.at[by_begin.at[begun]] < until.at[row]:
                row = by_begin.at[begun]
                nodes.change(node_of.at[row], begin.at[row], amounts.at[row])
                begun += 1
            else:
                nodes.change(node_of.at[row], until.at[row], -amounts.at[row])
                ended += 1
        for row in range(limits.size):
            nodes.change(row, end, 0)
    return seconds
