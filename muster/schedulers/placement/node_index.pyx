"""Nodes by what they have free, so that a place is found without a look at all of them.

The ledger's steps list the nodes that they change; the index takes them over before it answers.
"""

from libcpp.algorithm cimport sort

from muster.cluster.ledger_core cimport CPU, WHOLE
from muster.schedulers.placement.rules_core cimport gpus_that_fit, holds_gang, pick_gpus, put_share

cdef extern from * nogil:
    """
    #include <algorithm>
    #include <functional>
    #include <vector>
    // A vector whose greatest element comes first. Nodes that are taken next are at its end, where a change is cheap.
    template <typename Element>
    static inline typename std::vector<Element>::iterator muster_place(std::vector<Element>& in, const Element& one) {
        return std::lower_bound(in.begin(), in.end(), one, std::greater<Element>());
    }
    template <typename Element>
    static inline void muster_add(std::vector<Element>& to, const Element& one) {
        to.insert(muster_place(to, one), one);
    }
    template <typename Element>
    static inline void muster_remove(std::vector<Element>& from, const Element& one) {
        from.erase(muster_place(from, one));
    }
    """
    int64_t lowest_bit "__builtin_ctzll"(uint64_t bits)
    void add "muster_add"(vector[Slack]& to, Slack& one)
    void remove "muster_remove"(vector[Slack]& from_, Slack& one)


cdef bint _higher_node(const Part& one, const Part& other) noexcept nogil:
    return one.node > other.node


cdef class NodeIndex:
    """The nodes of one ledger: by fullness, and by free GPUs and number."""

    def __init__(self, int64_t nodes, int64_t most_gpus):
        cdef int64_t node
        self._known.resize(nodes)
        self._by_fullness.resize(most_gpus + 1)
        self._by_free.resize(most_gpus + 1, vector[uint64_t](nodes // 64 + 1))
        self._counts.resize(most_gpus + 1)
        self._is_taken.resize(nodes, False)
        self._stale_list.resize(nodes)
        self._stale_flags.resize(nodes, True)
        for node in range(nodes):
            self._known[node].first = -1
            self._stale_list[node] = nodes - 1 - node  # equal nodes are then added at the end of their vector
        self.stale.nodes, self.stale.is_listed = self._stale_list.data(), self._stale_flags.data()
        self.stale.count = nodes

    cdef void attach(self, Books* books) noexcept nogil:
        """The ledger lists the nodes that its steps change."""
        books.stale = &self.stale

    cdef void _update(self, Books* books) noexcept nogil:
        """Take over what has changed."""
        cdef int64_t at, node, before
        cdef Fullness now
        for at in range(self.stale.count):
            node = self.stale.nodes[at]
            self.stale.is_listed[node] = False
            now.first = books.nodes[node].free_gpus
            now.second.first, now.second.second = books.nodes[node].free[CPU], node
            if now == self._known[node]:
                continue
            before = self._known[node].first
            if before > 0:
                remove(self._by_fullness[before], self._known[node].second)
            if now.first > 0:
                add(self._by_fullness[now.first], now.second)
            if before != now.first:
                if before >= 0:
                    self._by_free[before][node // 64] &= ~(<uint64_t> 1 << (node % 64))
                    self._counts[before] -= 1
                self._by_free[now.first][node // 64] |= <uint64_t> 1 << (node % 64)
                self._counts[now.first] += 1
            self._known[node] = now
        self.stale.count = 0

    cdef int64_t fullest(self, Books* books, uint8_t* allowed, int64_t gpus, int64_t* need) noexcept nogil:
        """The fullest node that holds a whole gang, or -1: fewest free GPUs, then CPUs, then the lower number."""
        cdef int64_t free, node
        cdef size_t at
        for free in range(gpus, <int64_t> self._by_fullness.size()):
            at = self._by_fullness[free].size()
            while at > 0:
                at -= 1
                node = self._by_fullness[free][at].second
                if allowed[node] and not self._is_taken[node] and self._holds(books, node, gpus, need):
                    return node
        return -1

    cdef void list_free(self, Books* books, vector[int64_t]& nodes) noexcept nogil:
        """The nodes with free GPUs."""
        cdef size_t free, word
        cdef uint64_t bits
        self._update(books)
        nodes.clear()
        for free in range(1, self._by_free.size()):
            for word in range(self._by_free[free].size() if self._counts[free] else 0):
                bits = self._by_free[free][word]
                while bits:
                    nodes.push_back(<int64_t> word * 64 + lowest_bit(bits))
                    bits &= bits - 1

    cdef int64_t _fits(self, Books* books, int64_t node, int64_t* need) noexcept nogil:
        """How many whole GPUs, each with what it needs, a job may have on a node."""
        return gpus_that_fit(books, node, need)

    cdef bint _holds(self, Books* books, int64_t node, int64_t gpus, int64_t* need) noexcept nogil:
        """Whether a job may have so many whole GPUs, each with what it needs, on a node."""
        return holds_gang(books, node, gpus, need)

    cdef void _take(self, int64_t node, int64_t gpus) noexcept nogil:
        cdef Part part
        part.node, part.gpus = node, gpus
        self.parts.push_back(part)
        self._is_taken[node] = True

    cdef int64_t _emptiest(self, Books* books, uint8_t* allowed, int64_t* need, int64_t* fit) noexcept nogil:
        """The node where most GPUs fit, of equals the lower number; -1: there is none."""
        cdef int64_t free, node, here, best = -1
        cdef size_t word
        cdef uint64_t bits
        fit[0] = 0
        free = <int64_t> self._by_free.size() - 1
        while free > 0 and free >= fit[0]:
            for word in range(self._by_free[free].size() if self._counts[free] else 0):
                bits = self._by_free[free][word]
                while bits:
                    node = <int64_t> word * 64 + lowest_bit(bits)
                    bits &= bits - 1
                    if not allowed[node] or self._is_taken[node]:
                        continue
                    here = self._fits(books, node, need)
                    if here > fit[0] or (here == fit[0] and 0 < here and node < best):
                        best, fit[0] = node, here
                    if here == free:
                        break
                if fit[0] == free:
                    break
            free -= 1
        return best

    cdef bint find(
        self, Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, int64_t at_most
    ) noexcept nogil:
        """Choose the fullest node that holds a gang, else the emptiest nodes and the fullest that takes the rest.

        Whether at most so many nodes are enough; `parts` is what the gang takes of each.
        """
        cdef int64_t turn, node, fit
        cdef size_t at
        self._update(books)
        for at in range(self.parts.size()):
            self._is_taken[self.parts[at].node] = False
        self.parts.clear()
        for turn in range(at_most):
            node = self.fullest(books, allowed, gpus, need)
            if node >= 0:
                self._take(node, gpus)
                return True
            node = self._emptiest(books, allowed, need, &fit)
            if node < 0:
                return False
            self._take(node, fit)
            gpus -= fit
        return False

    cdef int64_t chain(self, Books* books, int64_t* need) noexcept nogil:
        """Rows for the gang that was placed last, by node."""
        cdef int64_t chain = -1
        cdef size_t at
        sort(self.parts.begin(), self.parts.end(), _higher_node)
        for at in range(self.parts.size()):
            chain = put_share(
                books,
                chain,
                self.parts[at].node,
                pick_gpus(books, self.parts[at].node, self.parts[at].gpus),
                WHOLE,
                need,
            )
        return chain
