"""Where workers and servers go: as evenly as possible on the fewest nodes, the emptiest first (Optimus §4.2).

Nodes stand by free CPU, the most first; jobs come by demand, the least first. A job goes to the first k nodes
that hold an even part of its workers and servers each, with the least k that there is. Where no such nodes are, its
workers and its servers look for nodes of their own, each evenly; then anywhere; then with about a quarter fewer, and
so on; then it gets back what it held. A node's network card keeps each server its bandwidth. The workers of a ring,
which all wait for the slowest link between them, first look for such nodes within one rack, before all other jobs, and
the largest ring first.
"""

from libc.math cimport rint
from libc.stdint cimport int64_t, uint8_t
from libcpp.algorithm cimport fill, sort
from libcpp.utility cimport pair
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, bools, ints, records
from muster.cluster.ledger_core cimport (
    MICRO,
    SERVER,
    Books,
    Row,
    books_of,
    copy_chain,
    new_row,
    put_chain,
    release_job,
)
from muster.schedulers.placement.rules_core cimport pick_gpus
from muster.workload.jobs_core cimport RIGID, Asked

import numpy as np

cdef enum:
    # Columns of `Tasks.needs`, and how many there are of a role and of a job.
    _GPU = 0
    _CPU = 1
    _NIC = 3
    _COLUMNS = 4
    _OF_JOB = 8
    # GPUs of a node at most, as many as a mask has room for.
    _MOST_GPUS = 64

# What is to be placed: `Tasks`, and the jobs by position.
cdef struct Wanted:
    int64_t* workers
    int64_t* servers
    int64_t* least_workers
    int64_t* needs
    uint8_t* in_ring
    uint8_t* settled
    Asked* asked
    Ints numbers
    uint8_t* node_allowed

# Workers and servers, and what one of each needs.
cdef struct Gang:
    int64_t workers
    int64_t servers
    int64_t* needs
    uint8_t* allowed  # nodes


cdef int64_t _count(Row* row, int64_t* needs) noexcept nogil:
    """How many workers or servers a row holds."""
    cdef int64_t resource = _CPU if row.role == SERVER else _GPU
    return row.amount[resource] // max(needs[_COLUMNS * row.role + resource], <int64_t> 1)


cdef int64_t _count_all(Books* books, int64_t chain, int64_t* needs, int64_t role) noexcept nogil:
    """Workers (role 0) or servers (1) in a chain."""
    cdef int64_t count = 0
    while chain >= 0:
        if books.rows[chain].role == role:
            count += _count(&books.rows[chain], needs)
        chain = books.rows[chain].next
    return count


cdef class _Room:
    """What the nodes have free while jobs are placed, and a draft of one job's tasks on them."""

    cdef Books books
    cdef int64_t* racks
    cdef int64_t rack_count
    cdef vector[int64_t] free  # nodes x columns of `Tasks.needs`
    cdef vector[int64_t] with_gpus  # how many nodes have so many GPUs free
    cdef vector[int64_t] by_cpu  # the nodes, the one with the most free CPU first
    cdef vector[int64_t] placed  # nodes x roles
    cdef vector[int64_t] chosen, found_in
    cdef vector[uint8_t] touched

    cdef void open(self, Wanted* wanted, int64_t* bandwidth) noexcept nogil:
        """Read what is free; the ledger knows nothing of the bandwidth that jobs use."""
        cdef int64_t node, at, nodes = self.books.node_count
        cdef vector[pair[int64_t, int64_t]] order
        self.free.resize(nodes * _COLUMNS)
        self.placed.resize(nodes * 2)
        self.chosen.resize(nodes)
        self.touched.resize(nodes)
        self.found_in.resize(self.rack_count)
        self.with_gpus.resize(_MOST_GPUS + 1)
        for node in range(nodes):
            self.free[node * _COLUMNS] = self.books.nodes[node].free_gpus * MICRO
            self.free[node * _COLUMNS + 1] = self.books.nodes[node].free[1]
            self.free[node * _COLUMNS + 2] = self.books.nodes[node].free[2]
            self.free[node * _COLUMNS + _NIC] = bandwidth[node]
            self.with_gpus[self.books.nodes[node].free_gpus] += 1
            order.push_back(pair[int64_t, int64_t](-self.books.nodes[node].free[1], node))
        for at in range(wanted.numbers.size):
            self.take(self.books.heads[wanted.numbers.at[at]], wanted.needs + _OF_JOB * at, _NIC, 1)
        sort(order.begin(), order.end())
        for at in range(nodes):
            self.by_cpu.push_back(order[at].second)

    cdef void take(self, int64_t chain, int64_t* needs, int64_t first_column, int64_t times) noexcept nogil:
        """Take what a chain holds from the free, from a column on; with -1 `times`, give it back."""
        cdef Row* row
        cdef int64_t column, count
        while chain >= 0:
            row = &self.books.rows[chain]
            count = _count(row, needs)
            for column in range(first_column, _COLUMNS):
                self.free[row.node * _COLUMNS + column] -= times * count * needs[_COLUMNS * row.role + column]
            chain = row.next

    cdef void charge(self, int64_t chain, int64_t* needs) noexcept nogil:
        """Take what a new chain holds from the free, and put its nodes back in their order."""
        cdef int64_t at, node, row = chain, to, end, middle, place, left = 0, last = self.by_cpu.size() - 1
        while row >= 0:
            node = self.books.rows[row].node
            if not self.touched[node]:
                self.with_gpus[self.free[node * _COLUMNS] // MICRO] -= 1
                self.touched[node] = True
                left += 1
            row = self.books.rows[row].next
        self.take(chain, needs, _GPU, 1)
        at = last
        while left > 0:
            node = self.by_cpu[at]
            if self.touched[node]:
                self.touched[node] = False
                left -= 1
                self.with_gpus[self.free[node * _COLUMNS] // MICRO] += 1
                # Behind it all are in order already: the last with more is found by halves.
                to, end = at, last
                while to < end:
                    middle = (to + end + 1) // 2
                    if self.free[self.by_cpu[middle] * _COLUMNS + _CPU] > self.free[node * _COLUMNS + _CPU]:
                        to = middle
                    else:
                        end = middle - 1
                for place in range(at, to):
                    self.by_cpu[place] = self.by_cpu[place + 1]
                self.by_cpu[to] = node
            at -= 1

    cdef bint has_bandwidth(self, int64_t chain, int64_t* needs) noexcept nogil:
        """Whether the network cards still have what a stopped job was kept."""
        cdef Row* row
        cdef Row* other
        cdef int64_t kept
        while chain >= 0:
            row = &self.books.rows[chain]
            kept = _count(row, needs) * needs[_COLUMNS * row.role + _NIC]
            if row.next >= 0 and self.books.rows[row.next].node == row.node:
                # A node's servers come right after its workers.
                other = &self.books.rows[row.next]
                kept += _count(other, needs) * needs[_COLUMNS * other.role + _NIC]
            if kept > self.free[row.node * _COLUMNS + _NIC]:
                return False
            chain = row.next
        return True

    cdef bint was_in_vain(self, int64_t before, int64_t now, int64_t* needs) noexcept nogil:
        """Whether a job holds no more than before and all that it held before is free beside the others."""
        cdef int64_t role, row = before, column
        cdef bint fits = True
        for role in range(2):
            if _count_all(&self.books, now, needs, role) > _count_all(&self.books, before, needs, role):
                return False
        self.take(now, needs, _GPU, -1)
        self.take(before, needs, _GPU, 1)
        while row >= 0:
            for column in range(_COLUMNS):
                fits = fits and self.free[self.books.rows[row].node * _COLUMNS + column] >= 0
            row = self.books.rows[row].next
        self.take(before, needs, _GPU, -1)
        self.take(now, needs, _GPU, 1)
        return fits

    cdef int64_t chain_for(self, Gang gang, int64_t least_workers, bint in_ring) noexcept nogil:
        """Rows for a job's tasks, for fewer and fewer where there is no place for all; -1: there is none."""
        cdef int64_t least_servers = min(gang.servers, <int64_t> 1)
        if gang.workers == 0:
            return -1
        gang.workers = self.most_tasks(&gang, 0, gang.workers)
        gang.servers = self.most_tasks(&gang, 1, gang.servers)
        while gang.workers >= max(least_workers, <int64_t> 1) and gang.servers >= least_servers:
            if self.find(&gang, in_ring):
                return self.chain(gang.needs)
            if gang.workers <= least_workers and gang.servers <= least_servers:
                break
            gang.workers = max(gang.workers - max(gang.workers // 4, <int64_t> 1), least_workers)
            gang.servers = max(gang.servers - max(gang.servers // 4, <int64_t> 1), least_servers)
        return -1

    cdef int64_t most_tasks(self, Gang* gang, int64_t role, int64_t wanted) noexcept nogil:
        """How many of the wanted workers, or servers, the nodes have room for if nothing else comes."""
        cdef int64_t* needs = gang.needs + _COLUMNS * role
        cdef int64_t at, node, column, here, count = 0
        for at in range(self.books.node_count):
            node = self.by_cpu[at]
            if count >= wanted or self.free[node * _COLUMNS + _CPU] < needs[_CPU]:
                break
            if gang.allowed[node]:
                here = wanted
                for column in range(_COLUMNS):
                    if needs[column] > 0:
                        here = min(here, max(self.free[node * _COLUMNS + column], <int64_t> 0) // needs[column])
                count += here
        return min(count, wanted)

    cdef bint fits(self, int64_t node, int64_t workers, int64_t servers, int64_t* needs) noexcept nogil:
        """Whether a node has room for so many workers and servers beside those placed."""
        cdef int64_t column
        workers += self.placed[2 * node]
        servers += self.placed[2 * node + 1]
        for column in range(_COLUMNS):
            if workers * needs[column] + servers * needs[_COLUMNS + column] > self.free[node * _COLUMNS + column]:
                return False
        return True

    cdef bint find(self, Gang* gang, bint in_ring) noexcept nogil:
        """Fill `placed` by this module's rule; whether there is a place for so many workers and servers.

        The tasks of a ring should be within one rack.
        """
        fill(self.placed.begin(), self.placed.end(), 0)
        if self.evenly(gang, gang.workers, gang.servers, in_ring):
            return True
        if self.evenly(gang, gang.workers, 0, False):
            if gang.servers == 0 or self.evenly(gang, 0, gang.servers, False):
                return True
        fill(self.placed.begin(), self.placed.end(), 0)
        return self.anywhere(gang, 0, gang.workers) and self.anywhere(gang, 1, gang.servers)

    cdef bint anywhere(self, Gang* gang, int64_t role, int64_t count) noexcept nogil:
        """Add so many workers (role 0) or servers (1) node by node; whether all have a place."""
        cdef int64_t at, node
        for at in range(self.books.node_count):
            node = self.by_cpu[at]
            if count == 0:
                break
            if gang.allowed[node]:
                while count > 0 and self.fits(node, 1 - role, role, gang.needs):
                    self.placed[2 * node + role] += 1
                    count -= 1
        return count == 0

    cdef int64_t count_with_gpus(self, int64_t gpus) noexcept nogil:
        """How many nodes have at least so many GPUs free."""
        cdef int64_t more, count = 0
        for more in range(gpus, _MOST_GPUS + 1):
            count += self.with_gpus[more]
        return count

    cdef bint evenly(self, Gang* gang, int64_t workers, int64_t servers, bint in_rack) noexcept nogil:
        """Add even parts on the fewest nodes, or the fewest of one rack, to those placed; whether there are such."""
        cdef int64_t* needs = gang.needs
        cdef int64_t count, at, node, cpus, found, group
        cdef int64_t part_workers, part_servers, before_workers = -1, before_servers = -1
        for count in range(1, max(workers, servers) + 1):
            part_workers, part_servers = (workers + count - 1) // count, (servers + count - 1) // count
            if part_workers == before_workers and part_servers == before_servers:
                continue  # as large parts as before, on more nodes
            before_workers, before_servers = part_workers, part_servers
            if self.count_with_gpus(part_workers * needs[_GPU] // MICRO) < count:
                continue
            cpus = part_workers * needs[_CPU] + part_servers * needs[_COLUMNS + _CPU]
            found = 0
            fill(self.found_in.begin(), self.found_in.end(), 0)
            for at in range(self.books.node_count):
                node = self.by_cpu[at]
                if self.free[node * _COLUMNS + _CPU] < cpus:
                    break
                if gang.allowed[node] and self.fits(node, part_workers, part_servers, needs):
                    group = self.racks[node] if in_rack else 0
                    self.chosen[found] = node
                    found += 1
                    self.found_in[group] += 1
                    if self.found_in[group] == count:
                        self.share_out(found, group if in_rack else -1, count, workers, servers)
                        return True
        return False

    cdef void share_out(
        self, int64_t found, int64_t rack, int64_t count, int64_t workers, int64_t servers
    ) noexcept nogil:
        """Even parts to the chosen nodes, `count` of them, of a rack (-1: of any); what is over to the first."""
        cdef int64_t at, node, turn = 0
        for at in range(found):
            node = self.chosen[at]
            if rack < 0 or self.racks[node] == rack:
                self.placed[2 * node] += workers // count + (turn < workers % count)
                self.placed[2 * node + 1] += servers // count + (turn < servers % count)
                turn += 1

    cdef int64_t chain(self, int64_t* needs) noexcept nogil:
        """Rows for the placed tasks: the emptiest node last, its servers after its workers."""
        cdef int64_t at, node, role, resource, number, chain = -1
        cdef Row* row
        for at in range(self.books.node_count):
            node = self.by_cpu[at]
            for role in range(1, -1, -1):
                if self.placed[2 * node + role] > 0:
                    number = new_row(&self.books)
                    row = &self.books.rows[number]
                    row.node, row.role, row.next = node, role, chain
                    for resource in range(_NIC):
                        row.amount[resource] = self.placed[2 * node + role] * needs[_COLUMNS * role + resource]
                    if role == 0:
                        row.mask = pick_gpus(&self.books, node, row.amount[_GPU] // MICRO)
                    chain = number
        return chain

    cdef void place(self, Wanted* wanted, int64_t at, int64_t stopped) noexcept nogil:
        """Give a job its tasks, or what it held before it was stopped."""
        cdef int64_t job = wanted.numbers.at[at], chain
        cdef Gang gang
        gang.workers, gang.servers, gang.needs = wanted.workers[at], wanted.servers[at], wanted.needs + _OF_JOB * at
        gang.allowed = wanted.node_allowed + self.books.node_count * wanted.asked[job].constraint
        chain = self.chain_for(gang, wanted.least_workers[at], wanted.in_ring[at])
        if chain < 0 and stopped >= 0 and gang.workers > 0 and self.has_bandwidth(stopped, gang.needs):
            chain = copy_chain(&self.books, stopped)
        if chain >= 0 and put_chain(&self.books, job, chain) == 0:
            self.charge(chain, gang.needs)


def place_tasks(books, jobs, order, tasks, cards):
    """Stop the jobs that change their size, then place them in order; which of them were stopped or shrunk in vain.

    `jobs` are `JobColumns`, `tasks` are `Tasks` and `cards` are `NetworkCards`.
    """
    cdef _Room room = _Room()
    cdef Wanted wanted
    cdef vector[int64_t] stopped
    cdef Ints turns = ints(order)
    cdef int64_t at, turn, job
    cdef uint8_t* in_vain
    wanted.workers, wanted.servers = ints(tasks.workers).at, ints(tasks.servers).at
    wanted.least_workers, wanted.needs = ints(tasks.least_workers).at, ints(tasks.needs).at
    wanted.in_ring, wanted.settled = bools(tasks.in_ring).at, bools(tasks.settled).at
    wanted.asked, wanted.numbers = <Asked*> records(jobs.spec, sizeof(Asked)), ints(jobs.numbers)
    wanted.node_allowed = bools(jobs.node_allowed).at
    room.books = books_of(books)
    room.racks, room.rack_count = ints(cards.rack).at, cards.rack.max() + 1
    result = np.zeros(wanted.numbers.size, np.bool_)
    in_vain = bools(result).at
    for at in range(wanted.numbers.size):
        job = wanted.numbers.at[at]
        stopped.push_back(-1 if wanted.settled[at] else room.books.heads[job])
        if stopped[at] >= 0:
            release_job(&room.books, job)
    room.open(&wanted, ints(cards.bandwidth).at)
    for turn in range(turns.size):
        at = turns.at[turn]
        if not wanted.settled[at]:
            room.place(&wanted, at, stopped[at])
    for at in range(wanted.numbers.size):
        if stopped[at] >= 0:
            in_vain[at] = room.was_in_vain(
                stopped[at], room.books.heads[wanted.numbers.at[at]], wanted.needs + _OF_JOB * at
            )
    return result


def held_sizes(books, asked, index):
    """How many workers and servers each job holds."""
    cdef Books ledger = books_of(books)
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef Asked* ask
    cdef Row* row
    cdef Ints jobs = ints(index), workers, servers
    cdef int64_t at, chain, gpus, cpus
    result = np.zeros(jobs.size, np.int64), np.zeros(jobs.size, np.int64)
    workers, servers = ints(result[0]), ints(result[1])
    for at in range(jobs.size):
        ask = &all_asked[jobs.at[at]]
        gpus, cpus = 0, 0
        chain = ledger.heads[jobs.at[at]]
        while chain >= 0:
            row = &ledger.rows[chain]
            gpus += row.amount[_GPU]
            if row.role == SERVER:
                cpus += row.amount[_CPU]
            chain = row.next
        if gpus > 0:
            workers.at[at] = gpus // (<int64_t> MICRO if ask.sync == RIGID else max(ask.worker_gpus, <int64_t> 1))
        if cpus > 0:
            servers.at[at] = <int64_t> rint(<double> cpus / ask.server_cpu)
    return result
