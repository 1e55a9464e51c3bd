"""One node's CPU, memory and storage given to those of its jobs that gain most, compiled.

Only jobs that have all their GPUs on this node take part. Each has at least its fair choice, so none falls below its
GPU-proportional speed.
"""

from libc.math cimport INFINITY
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport (
    NodePart,
    alone,
    draft_of,
    fits,
    floor_of,
    free_on,
    is_overdrawn,
    per_gpu,
    set_amounts,
)
from muster.schedulers.allocation.gangs_core cimport (
    amount_per_gpu,
    choice_of,
    forms_of,
    gangs_of,
    model_on,
    need_of,
    request_of,
)
from muster.schedulers.placement.delay_scheduling cimport ISLAND, MACHINE, NETWORK, RACK
from muster.schedulers.placement.network_aware cimport FormsOfGang, form_of_place, form_on_machine
from muster.speed.input_core cimport ModelSpeed
from muster.speed.points_core cimport micro, speed_at

cdef double _EPSILON = 1e-9

# A job that has all its GPUs on the node: its lowest choice (the fair one), one past its highest, and its present one.
cdef struct Placed:
    int64_t number
    int64_t gpus
    double weight
    int64_t first
    int64_t last
    int64_t chosen

# The jobs that one node is given to.
cdef struct Here:
    Placed* jobs
    int64_t count
    int64_t* free
    int64_t* choice
    double* speed
    int64_t resources
    double share[SLOTS]  # the GPU-proportional share of the node, at least 1 of each resource

# Two steps at once: the choice of one job and of another, and what they gain in all.
cdef struct Exchange:
    double gain
    int64_t up_to
    int64_t down_to


def fill_all(draft, gangs):
    """Give out every node."""
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    divide_all(&plan, &jobs)


def fill_node(draft, gangs, int64_t node):
    """Give out a node: the best rates of gain first, then exchanges of two or more, then the rest in part steps.

    What is there already is kept if it is as good.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    divide_node(&plan, &jobs, node)


cdef void divide_all(Draft* draft, Gangs* gangs) noexcept nogil:
    cdef int64_t node
    for node in range(draft.nodes):
        divide_node(draft, gangs, node)


cdef void divide_node(Draft* draft, Gangs* gangs, int64_t node) noexcept nogil:
    cdef vector[Placed] placed
    cdef vector[int64_t] before
    cdef int64_t i, resource, kind = gangs.kind_of_node[node]
    cdef int64_t share[SLOTS]
    cdef double value, reached = -1.0
    cdef bint possible = not is_overdrawn(draft, node)
    cdef Here here
    placed.reserve(gangs.kinds[kind].gpus)
    _find_alone(draft, gangs, node, placed)
    if placed.empty():
        return
    here.jobs, here.count = placed.data(), placed.size()
    here.free, here.resources = free_on(draft, node), draft.resources
    here.choice, here.speed = gangs.demands.choice, gangs.demands.choice_speed
    amount_per_gpu(gangs, kind, share)
    for resource in range(here.resources):
        here.share[resource] = share[resource]
    before.resize(here.count * SLOTS)
    value = _save(draft, gangs, kind, &here, before.data())
    if possible and value >= _most(&here) - _EPSILON and _are_fair(draft, gangs, kind, &here, before.data()):
        return
    for i in range(here.count):
        set_amounts(draft, here.jobs[i].number, choice_of(gangs, here.jobs[i].chosen))
    if not is_overdrawn(draft, node):
        _climb(draft, &here)
        while _exchange(draft, &here) or _make_room(draft, &here):
            _climb(draft, &here)
        reached = _part_steps(draft, gangs, node, &here)
        for i in range(here.count):
            reached += here.jobs[i].weight * here.speed[here.jobs[i].chosen]
    if not possible and reached >= 0:
        return
    if reached < 0 or (reached <= value + _EPSILON and _are_fair(draft, gangs, kind, &here, before.data())):
        for i in range(here.count):
            set_amounts(draft, here.jobs[i].number, before.data() + i * SLOTS)


cdef void _find_alone(Draft* draft, Gangs* gangs, int64_t node, vector[Placed]& placed) noexcept nogil:
    """Write the node parts here that are all their job has, at their lowest choice.

    They are in the order of the jobs, so that it makes no difference which came to the node first.
    """
    cdef int64_t number = draft.first_here[node], pair
    cdef size_t place
    cdef NodePart* part
    cdef Placed one
    while number >= 0:
        part = &draft.node_parts[number]
        if alone(draft, number):
            pair = gangs.classes[part.at] * gangs.kind_count + gangs.kind_of_node[node]
            one.number, one.gpus, one.weight = number, part.gpus, gangs.weight[part.at]
            one.first, one.last = gangs.demands.first_choice[pair], gangs.demands.first_choice[pair + 1]
            one.chosen = one.first
            place = placed.size()
            while place > 0 and draft.node_parts[placed[place - 1].number].at > part.at:
                place -= 1
            placed.insert(placed.begin() + place, one)
        number = part.next_here


cdef double _save(Draft* draft, Gangs* gangs, int64_t kind, Here* here, int64_t* before) noexcept nogil:
    """Write what the node parts have beside each GPU; the speed of all, times GPUs."""
    cdef double value = 0.0
    cdef int64_t i, number
    for i in range(here.count):
        number = here.jobs[i].number
        per_gpu(draft, number, before + i * SLOTS)
        value += here.jobs[i].weight * speed_at(
            model_on(gangs, draft.node_parts[number].at, kind), before + i * SLOTS
        )
    return value


cdef inline double _most(Here* here) noexcept nogil:
    """The speed of all at their highest choices, times GPUs."""
    cdef double most = 0.0
    cdef int64_t i
    for i in range(here.count):
        most += here.jobs[i].weight * here.speed[here.jobs[i].last - 1]
    return most


cdef bint meets_requests(Draft* draft, Gangs* gangs, int64_t node) noexcept nogil:
    """Whether every job of a node has at least what it requests."""
    cdef int64_t number = draft.first_here[node], resource
    cdef NodePart* part
    while number >= 0:
        part = &draft.node_parts[number]
        for resource in range(1, draft.resources):
            if part.amount[resource] < part.gpus * request_of(gangs, part.at)[resource]:
                return False
        number = part.next_here
    return True


cdef bint _are_fair(Draft* draft, Gangs* gangs, int64_t kind, Here* here, int64_t* amounts) noexcept nogil:
    """Whether these amounts give each job its fair speed and request; its only choice where nothing is known of it."""
    cdef int64_t i, at, resource
    cdef int64_t* least
    cdef double fair
    for i in range(here.count):
        at = draft.node_parts[here.jobs[i].number].at
        least = request_of(gangs, at)
        if model_on(gangs, at, kind).n_cpus == 0:
            least = choice_of(gangs, here.jobs[i].first)
        fair = gangs.demands.fair_speed[gangs.classes[at] * gangs.kind_count + kind]
        if speed_at(model_on(gangs, at, kind), amounts + i * SLOTS) < fair * (1 - _EPSILON):
            return False
        for resource in range(1, draft.resources):
            if amounts[i * SLOTS + resource] < least[resource]:
                return False
    return True


cdef void _choose(Draft* draft, Here* here, int64_t i, int64_t choice) noexcept nogil:
    """Give a job one of its choices."""
    here.jobs[i].chosen = choice
    set_amounts(draft, here.jobs[i].number, here.choice + choice * here.resources)


cdef void _climb(Draft* draft, Here* here) noexcept nogil:
    """While there is room: the step that gains most for what it takes, in GPUs' shares."""
    cdef int64_t i, then, best_i, best_then, resource, more, resources = here.resources
    cdef double gain, cost, best_rate
    cdef int64_t* now
    cdef int64_t* wanted
    cdef Placed* job
    cdef bint short_of
    while True:
        best_i, best_then, best_rate = -1, -1, 0.0
        for i in range(here.count):
            job = &here.jobs[i]
            now = here.choice + job.chosen * resources
            for then in range(job.chosen + 1, job.last):
                wanted = here.choice + then * resources
                short_of = False
                for resource in range(1, resources):
                    short_of |= job.gpus * (wanted[resource] - now[resource]) > here.free[resource]
                if short_of:
                    continue
                gain = job.weight / job.gpus * (here.speed[then] - here.speed[job.chosen])
                cost = _EPSILON
                for resource in range(1, resources):
                    more = wanted[resource] - now[resource]
                    if more > 0:
                        cost += more / here.share[resource]
                if gain / cost > best_rate:
                    best_i, best_then, best_rate = i, then, gain / cost
        if best_i < 0:
            return
        _choose(draft, here, best_i, best_then)


cdef bint _exchange(Draft* draft, Here* here) noexcept nogil:
    """Step one job up and another down, the pair that gains most; whether there was such a pair."""
    cdef int64_t i, j, up = -1, down = -1
    cdef Exchange best, found
    best.gain, best.up_to, best.down_to = _EPSILON, -1, -1
    for i in range(here.count):
        for j in range(here.count):
            if i != j and here.jobs[j].chosen != here.jobs[j].first:
                found = _best_pair(here, &here.jobs[i], &here.jobs[j], best.gain)
                if found.up_to >= 0:
                    best, up, down = found, i, j
    if up < 0:
        return False
    _choose(draft, here, down, best.down_to)
    _choose(draft, here, up, best.up_to)
    return True


cdef Exchange _best_pair(Here* here, Placed* one, Placed* two, double best_gain) noexcept nogil:
    """What one gains and the other loses at most in all, and the new choices; -1 if not more than `best_gain`."""
    cdef int64_t then, other, resource, more, less, resources = here.resources
    cdef int64_t* choice = here.choice
    cdef double gain, net
    cdef Exchange best
    cdef bint short_of
    best.gain, best.up_to, best.down_to = best_gain, -1, -1
    for then in range(one.chosen + 1, one.last):
        gain = one.weight * (here.speed[then] - here.speed[one.chosen])
        if gain <= best.gain:
            continue
        for other in range(two.chosen - 1, two.first - 1, -1):
            net = gain - two.weight * (here.speed[two.chosen] - here.speed[other])
            if net <= best.gain:
                break
            short_of = False
            for resource in range(1, resources):
                more = choice[then * resources + resource] - choice[one.chosen * resources + resource]
                less = choice[two.chosen * resources + resource] - choice[other * resources + resource]
                short_of = short_of or one.gpus * more - two.gpus * less > here.free[resource]
            if not short_of:
                best.gain, best.up_to, best.down_to = net, then, other
    return best


cdef bint _make_room(Draft* draft, Here* here) noexcept nogil:
    """Step one job up and as many others down as it takes, the best way; whether that gains anything."""
    cdef vector[int64_t] chosen, trial, best
    cdef int64_t free[SLOTS]
    cdef int64_t i, then, resource, more, resources = here.resources
    cdef double net, most = _EPSILON
    chosen.resize(here.count)
    for i in range(here.count):
        chosen[i] = here.jobs[i].chosen
    best = chosen
    for i in range(here.count):
        for then in range(chosen[i] + 1, here.jobs[i].last):
            net = here.jobs[i].weight * (here.speed[then] - here.speed[chosen[i]])
            if net <= most:
                continue
            trial = chosen
            trial[i] = then
            for resource in range(1, resources):
                more = here.choice[then * resources + resource] - here.choice[chosen[i] * resources + resource]
                free[resource] = here.free[resource] - here.jobs[i].gpus * more
            net = _step_down_others(here, trial.data(), i, free, net, most)
            if net > most and not _some_short(here, free):
                most = net
                best = trial
    for i in range(here.count):
        if best[i] != chosen[i]:
            _choose(draft, here, i, best[i])
    return most > _EPSILON


cdef bint _some_short(Here* here, int64_t* free) noexcept nogil:
    """Whether less than nothing is free of some resource."""
    cdef int64_t resource
    for resource in range(1, here.resources):
        if free[resource] < 0:
            return True
    return False


cdef double _step_down_others(
    Here* here, int64_t* trial, int64_t spared, int64_t* free, double net, double most
) noexcept nogil:
    """Step the other jobs down while something is short and the net gain exceeds `most`; the net gain left.

    First steps down the job that loses least for what it gives of what is short, in GPUs' shares.
    """
    cdef int64_t j, other = -1, resource, given, resources = here.resources
    while net > most and _some_short(here, free):
        j = _cheapest_step_down(here, trial, spared, free, &other)
        if j < 0:
            break
        net -= here.jobs[j].weight * (here.speed[trial[j]] - here.speed[other])
        for resource in range(1, resources):
            given = here.choice[trial[j] * resources + resource] - here.choice[other * resources + resource]
            free[resource] += here.jobs[j].gpus * given
        trial[j] = other
    return net


cdef int64_t _cheapest_step_down(
    Here* here, int64_t* trial, int64_t spared, int64_t* free, int64_t* lower
) noexcept nogil:
    """The job that loses least for each share of what is short; -1: none. `lower` gets its lower choice."""
    cdef int64_t j, other, resource, used, found = -1, resources = here.resources
    cdef int64_t short_of[SLOTS]
    cdef int64_t* now
    cdef int64_t* then
    cdef double* speed = here.speed
    cdef Placed* job
    cdef double relief, loss, least = INFINITY
    for resource in range(1, resources):
        short_of[resource] = max(-free[resource], <int64_t> 0)
    for j in range(here.count):
        if j == spared:
            continue
        job = &here.jobs[j]
        now = here.choice + trial[j] * resources
        for other in range(job.first, trial[j]):
            then = here.choice + other * resources
            relief = 0.0
            for resource in range(1, resources):
                used = min(job.gpus * (now[resource] - then[resource]), short_of[resource])
                if used != 0:
                    relief += used / here.share[resource]
            if relief > _EPSILON:
                loss = job.weight * (speed[trial[j]] - speed[other]) / relief
                if loss < least:
                    found, lower[0], least = j, other, loss
    return found


cdef double _part_steps(Draft* draft, Gangs* gangs, int64_t node, Here* here) noexcept nogil:
    """Hand out what is left between the measured points; the speed gained, times GPUs."""
    cdef vector[bint] gains
    cdef int64_t point[SLOTS]
    cdef int64_t i, best
    cdef double gain, most, gained = 0.0
    gains.assign(here.count, True)
    for _ in range(here.count):
        best, most = -1, _EPSILON
        for i in range(here.count):
            # Less and less is left: a job that gains nothing now never will.
            if gains[i]:
                gain = _part_step(draft, gangs, node, here.jobs[i].number, point)
                gains[i] = gain > 0
                if gain > most:
                    best, most = i, gain
        if best < 0:
            break
        gained += _part_step(draft, gangs, node, here.jobs[best].number, point)
        set_amounts(draft, here.jobs[best].number, point)
    return gained


cdef double _part_step(Draft* draft, Gangs* gangs, int64_t node, int64_t number, int64_t* point) noexcept nogil:
    """What a job would gain from all that is left, or from all CPUs that are left.

    `point` gets what it would have beside each GPU.
    """
    cdef NodePart* part = &draft.node_parts[number]
    cdef int64_t kind = gangs.kind_of_node[node]
    cdef ModelSpeed* model = model_on(gangs, part.at, kind)
    cdef int64_t* limit = need_of(gangs, gangs.demands.limit, part.at) + kind * gangs.resources
    cdef int64_t* free = free_on(draft, node)
    cdef int64_t now[SLOTS]
    cdef int64_t most, resource
    cdef double speed, gain
    if model.n_cpus == 0:
        return 0.0
    per_gpu(draft, number, now)
    for resource in range(1, draft.resources):
        point[resource] = now[resource]
    for resource in range(1, 4):
        point[resource] = min(now[resource] + floor_of(free[resource], part.gpus), limit[resource])
    point[1] = min(point[1], max(now[1], micro(model.cpus[model.n_cpus - 1])))
    point[2] = min(point[2], max(now[2], micro(model.memory[model.n_memory - 1])))
    if point[1] == now[1] and point[2] == now[2] and point[3] == now[3]:
        return 0.0
    speed = speed_at(model, now)
    gain = speed_at(model, point) - speed
    if gain <= _EPSILON:
        return 0.0
    for resource in range(1, 4):
        most = point[resource]
        point[resource] = now[resource]
        if speed_at(model, point) - speed < gain:
            point[resource] = most
    return gangs.weight[part.at] * (speed_at(model, point) - speed)


cdef double gang_speed(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil:
    """The speed of a placed job: that of its slowest node, with the communication that its place leaves exposed."""
    cdef double slowest = INFINITY
    cdef int64_t number = draft.first[at]
    cdef int64_t amounts[SLOTS]
    cdef ModelSpeed* model
    while number >= 0:
        per_gpu(draft, number, amounts)
        model = model_on(gangs, at, gangs.kind_of_node[draft.node_parts[number].node])
        slowest = min(slowest, speed_at(model, amounts))
        number = draft.node_parts[number].next
    if slowest == INFINITY:
        return 0.0
    return slowest if gangs.forms.count == 0 else _speed_on_network(draft, gangs, at, slowest)


cdef double _speed_on_network(Draft* draft, Gangs* gangs, int64_t at, double speed) noexcept nogil:
    """The speed of a placed job that has this speed without communication, relative to its best place."""
    cdef FormsOfGang forms = forms_of(gangs, at)
    cdef ModelSpeed* model = model_on(gangs, at, gangs.kind_of_node[draft.node_parts[draft.first[at]].node])
    return speed_on_form(model, forms, form_of(draft, gangs, at, forms), speed)


cdef double speed_on_form(ModelSpeed* model, FormsOfGang forms, int64_t number, double speed) noexcept nogil:
    """The speed on a form of place of a job that has this speed without communication, relative to its best place.

    An iteration takes as long as its input stage, or as compute and exposed communication if that is longer.
    """
    cdef double here = forms.speeds[number], best = forms.speeds[0], reference = model.reference_seconds
    if (here == 1 and best == 1) or here <= 0 or speed <= 0:
        return speed
    return max(reference, model.compute_seconds / best) / max(reference / speed, model.compute_seconds / here)


cdef int64_t form_of(Draft* draft, Gangs* gangs, int64_t at, FormsOfGang forms) noexcept nogil:
    """The form of a placed job's place. On one node that is one island, if it has room in one."""
    cdef vector[int64_t] racks
    cdef int64_t number = draft.first[at], first = draft.first[at], level = MACHINE
    cdef bint even = True, fits_island
    cdef NodePart* part = &draft.node_parts[first]
    if part.next < 0:
        fits_island = part.gpus <= gangs.island_of_node[part.node]
        return form_on_machine(forms, ISLAND if fits_island else MACHINE)
    while number >= 0:
        part = &draft.node_parts[number]
        racks.push_back(gangs.rack_of_node[part.node])
        even = even and part.gpus == draft.node_parts[first].gpus
        if number != first:
            level = max(level, <int64_t> (RACK if racks.back() == racks.front() else NETWORK))
        number = part.next
    return form_of_place(forms, level, even, racks)


cdef void raise_gang(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil:
    """Give a job on several nodes of one kind the fastest choice that all of them have room for."""
    cdef int64_t first = draft.first[at], kind, pair, then, number
    cdef double speed
    if first < 0 or draft.node_parts[first].next < 0:
        return
    kind = gangs.kind_of_node[draft.node_parts[first].node]
    pair = gangs.classes[at] * gangs.kind_count + kind
    speed = gang_speed(draft, gangs, at)
    for then in range(gangs.demands.first_choice[pair + 1] - 1, gangs.demands.first_choice[pair] - 1, -1):
        if gangs.demands.choice_speed[then] <= speed + _EPSILON:
            return
        if _all_have_room(draft, gangs, first, kind, choice_of(gangs, then)):
            number = first
            while number >= 0:
                set_amounts(draft, number, choice_of(gangs, then))
                number = draft.node_parts[number].next
            return


cdef bint _all_have_room(Draft* draft, Gangs* gangs, int64_t number, int64_t kind, int64_t* amounts) noexcept nogil:
    """Whether all nodes of a job are of one kind and have room for these amounts instead of what it has."""
    cdef int64_t more[SLOTS]
    cdef int64_t resource
    cdef NodePart* part
    while number >= 0:
        part = &draft.node_parts[number]
        for resource in range(1, draft.resources):
            more[resource] = amounts[resource] - floor_of(part.amount[resource], part.gpus)
        if gangs.kind_of_node[part.node] != kind or not fits(draft, part.node, part.gpus, more):
            return False
        number = part.next
    return True
