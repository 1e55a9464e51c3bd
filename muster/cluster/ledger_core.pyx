"""The steps that change the ledger's books: charging, releasing, journalling and undoing.

See `ledger_arrays` for what the arrays hold.
"""

cimport numpy as cnp

from muster.cluster.arrays cimport ints, records

from muster.cluster.even_core cimport UNFIT_EVEN, even_gangs, level_chain
from muster.cluster.resources import RESOURCE_COUNT

cdef int64_t _RESOURCES = RESOURCE_COUNT


cdef Books books_of(object arrays) except *:
    """The books of a ledger (`ledger_arrays.Books`); they hold until an array is replaced."""
    cdef Books books
    cdef cnp.ndarray nodes, devices
    cdef int64_t* places
    nodes, devices = arrays[0], arrays[1]
    books.nodes = <Node*> records(nodes, sizeof(Node))
    books.node_count = nodes.shape[0]
    books.devices = <Device*> records(devices, sizeof(Device))
    books.device_count = devices.shape[1]
    books.rows = <Row*> records(arrays[2], sizeof(Row))
    books.heads = ints(arrays[3]).at
    books.totals = ints(arrays[4]).at
    books.journal = <Entry*> records(arrays[5], sizeof(Entry))
    books.resources = _RESOURCES
    books.stale = NULL
    places = books.totals + _RESOURCES
    books.free_row, books.rows_used = places, places + 1
    books.entries, books.delayed = places + 2, places + 3
    return books


cdef bint _devices_fit(Books* books, Row* row) noexcept nogil:
    """Whether the node has the row's GPUs, and each of them has room for the row."""
    cdef int64_t gpu, gpus = books.nodes[row.node].gpus
    cdef Device* device
    if row.mask >> gpus:
        return False
    for gpu in range(gpus):
        if row.mask >> gpu & 1:
            device = device_of(books, row.node, gpu)
            if row.group >= 0:
                if device.holders > 0 and device.group != row.group:
                    return False
            elif device.group >= 0 or device.free_milli < row.milli:
                return False
    return True


cdef int64_t _take_devices(Books* books, Row* row) noexcept nogil:
    """Mark the row's GPUs as held; thousandths newly taken, or UNFIT_GPU with nothing changed."""
    cdef Node* node = &books.nodes[row.node]
    cdef Device* device
    cdef int64_t gpu, taken = 0
    if not _devices_fit(books, row):
        return UNFIT_GPU
    for gpu in range(node.gpus):
        if row.mask >> gpu & 1:
            device = device_of(books, row.node, gpu)
            if device.holders == 0:
                node.free_mask &= ~(<int64_t> 1 << gpu)
                node.free_gpus -= 1
            if row.group >= 0:
                taken += device.free_milli
                device.free_milli = 0
                device.group = row.group
            else:
                taken += row.milli
                device.free_milli -= row.milli
            device.holders += 1
    return taken


cdef int64_t _give_devices(Books* books, Row* row) noexcept nogil:
    """Give the row's GPUs back; thousandths that became free."""
    cdef Node* node = &books.nodes[row.node]
    cdef Device* device
    cdef int64_t gpu, given = 0
    for gpu in range(node.gpus):
        if row.mask >> gpu & 1:
            device = device_of(books, row.node, gpu)
            device.holders -= 1
            if row.group < 0:
                given += row.milli
                device.free_milli += row.milli
            elif device.holders == 0:
                given += WHOLE
                device.free_milli = WHOLE
                device.group = -1
            if device.holders == 0 and node.up:
                node.free_mask |= <int64_t> 1 << gpu
                node.free_gpus += 1
    return given


cdef int64_t charge(Books* books, int64_t number) noexcept nogil:
    """Take what a row asks from its node; 0, or why not (UNFIT_...) with nothing changed."""
    cdef Row* row = &books.rows[number]
    cdef Node* node
    cdef int64_t resource, taken
    if row.node < 0 or row.node >= books.node_count or not books.nodes[row.node].up:
        return UNFIT_NODE
    node = &books.nodes[row.node]
    for resource in range(1, books.resources):
        if row.amount[resource] > node.free[resource]:
            return UNFIT_AMOUNT
    taken = _take_devices(books, row)
    if taken < 0:
        return taken
    note_change(books, row.node)
    node.free[GPU] -= taken * WHOLE
    books.totals[GPU] -= taken * WHOLE
    for resource in range(1, books.resources):
        node.free[resource] -= row.amount[resource]
        books.totals[resource] -= row.amount[resource]
    return 0


cdef void discharge(Books* books, int64_t number) noexcept nogil:
    """Give back what a row holds: to the free, or to the unavailable where the node is down."""
    cdef Row* row = &books.rows[number]
    cdef Node* node = &books.nodes[row.node]
    cdef int64_t resource, amount, given = _give_devices(books, row)
    note_change(books, row.node)
    for resource in range(books.resources):
        amount = given * WHOLE if resource == GPU else row.amount[resource]
        if node.up:
            node.free[resource] += amount
            books.totals[resource] += amount
        else:
            node.unavailable[resource] += amount


cdef int64_t new_row(Books* books) noexcept nogil:
    """A blank row; the caller has reserved room."""
    cdef int64_t resource, number = books.free_row[0]
    cdef Row* row
    if number >= 0:
        books.free_row[0] = books.rows[number].next
    else:
        number = books.rows_used[0]
        books.rows_used[0] += 1
    row = &books.rows[number]
    row.next = -1
    row.mask = 0
    row.milli = WHOLE
    row.role = 0
    row.group = -1
    for resource in range(books.resources):
        row.amount[resource] = 0
    return number


cdef int64_t copy_chain(Books* books, int64_t chain) noexcept nogil:
    """The same rows once more, in the same order, charged nowhere; the caller has reserved room."""
    cdef int64_t row, first = -1, last = -1
    while chain >= 0:
        row = new_row(books)
        books.rows[row] = books.rows[chain]
        books.rows[row].next = -1
        if last < 0:
            first = row
        else:
            books.rows[last].next = row
        last = row
        chain = books.rows[chain].next
    return first


cdef void drop_rows(Books* books, int64_t chain) noexcept nogil:
    """Return a chain's rows, which are charged nowhere any more, to the list of free rows."""
    cdef int64_t following
    while chain >= 0:
        following = books.rows[chain].next
        books.rows[chain].next = books.free_row[0]
        books.free_row[0] = chain
        chain = following


cdef void _write_entry(Books* books, int64_t kind, int64_t job, int64_t chain) noexcept nogil:
    """Add a line to the journal."""
    cdef Entry* entry = &books.journal[books.entries[0]]
    entry.kind, entry.job, entry.chain = kind, job, chain
    books.entries[0] += 1


cdef int64_t put_chain(Books* books, int64_t job, int64_t chain) noexcept nogil:
    """Give a job, which holds nothing, the rows of a chain; 0, or why not, and then the rows are dropped."""
    cdef int64_t refusal, taken, row = chain
    if even_gangs(books) and not level_chain(books, chain):
        drop_rows(books, chain)
        return UNFIT_EVEN
    while row >= 0:
        books.rows[row].job = job
        refusal = charge(books, row)
        if refusal < 0:
            taken = chain
            while taken != row:
                discharge(books, taken)
                taken = books.rows[taken].next
            drop_rows(books, chain)
            return refusal
        row = books.rows[row].next
    books.heads[job] = chain
    _write_entry(books, PUT, job, chain)
    return 0


cdef void _add_releasing(Books* books, Row* row, int64_t sign) noexcept nogil:
    cdef int64_t resource
    for resource in range(books.resources):
        books.nodes[row.node].releasing[resource] += sign * row.amount[resource]


cdef void release_job(Books* books, int64_t job) noexcept nogil:
    """Take all a job holds away from it; its rows stay as they are until the journal is settled."""
    cdef int64_t chain = books.heads[job], row = books.heads[job]
    if chain < 0:
        return
    while row >= 0:
        if books.delayed[0]:
            _add_releasing(books, &books.rows[row], 1)
        else:
            discharge(books, row)
        row = books.rows[row].next
    books.heads[job] = -1
    _write_entry(books, RELEASE, job, chain)


cdef void undo_to(Books* books, int64_t mark) noexcept nogil:
    """Take steps back until the journal is as long as it was at the mark."""
    cdef Entry* entry
    cdef int64_t row
    while books.entries[0] > mark:
        books.entries[0] -= 1
        entry = &books.journal[books.entries[0]]
        row = entry.chain
        if entry.kind == PUT:
            while row >= 0:
                discharge(books, row)
                row = books.rows[row].next
            books.heads[entry.job] = -1
            drop_rows(books, entry.chain)
        else:
            while row >= 0:
                if books.delayed[0]:
                    _add_releasing(books, &books.rows[row], -1)
                else:
                    charge(books, row)
                row = books.rows[row].next
            books.heads[entry.job] = entry.chain


cdef int64_t carry_out(Books* books, Ints jobs, Ints first, Row* rows) noexcept nogil:
    """Give each job these rows instead of what it holds, journalled; 0, or why not, with the steps so far left."""
    cdef int64_t at, place, row, chain, refusal
    for at in range(jobs.size):
        release_job(books, jobs.at[at])
    for at in range(jobs.size):
        chain = -1
        for place in range(first.at[at + 1] - 1, first.at[at] - 1, -1):
            row = new_row(books)
            books.rows[row] = rows[place]
            books.rows[row].next = chain
            chain = row
        if chain >= 0:
            refusal = put_chain(books, jobs.at[at], chain)
            if refusal < 0:
                return refusal
    return 0


cdef void end_release(Books* books, int64_t chain) noexcept nogil:
    """What a chain held and was still releasing becomes free."""
    cdef int64_t row = chain
    while row >= 0:
        _add_releasing(books, &books.rows[row], -1)
        discharge(books, row)
        row = books.rows[row].next
    drop_rows(books, chain)


cdef bint same_chain(Books* books, int64_t one, int64_t other) noexcept nogil:
    """Whether two chains hold the same things, row by row."""
    cdef Row* a
    cdef Row* b
    cdef int64_t resource
    while one >= 0 and other >= 0:
        a, b = &books.rows[one], &books.rows[other]
        if a.node != b.node or a.mask != b.mask or a.milli != b.milli or a.role != b.role or a.group != b.group:
            return False
        for resource in range(books.resources):
            if a.amount[resource] != b.amount[resource]:
                return False
        one, other = a.next, b.next
    return one < 0 and other < 0


cdef void take_down(Books* books, int64_t number) noexcept nogil:
    """Make what is free on a node unavailable; no job holds anything on it."""
    cdef Node* node = &books.nodes[number]
    cdef int64_t resource
    note_change(books, number)
    for resource in range(books.resources):
        node.unavailable[resource] += node.free[resource]
        books.totals[resource] -= node.free[resource]
        node.free[resource] = 0
    node.up = 0
    node.free_mask = 0
    node.free_gpus = 0


cdef void bring_up(Books* books, int64_t number) noexcept nogil:
    """What was unavailable on a node is free again."""
    cdef Node* node = &books.nodes[number]
    cdef int64_t resource, gpu
    note_change(books, number)
    node.up = 1
    for resource in range(books.resources):
        node.free[resource] += node.unavailable[resource]
        books.totals[resource] += node.unavailable[resource]
        node.unavailable[resource] = 0
    for gpu in range(node.gpus):
        if device_of(books, number, gpu).holders == 0:
            node.free_mask |= <int64_t> 1 << gpu
            node.free_gpus += 1
