"""Kinds of jobs, and the chances of each kind to end, compiled."""

from cython.operator cimport dereference
from libc.stdint cimport int64_t
from libcpp.map cimport map
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Floats, Ints, floats, ints, records
from muster.workload.jobs_core cimport Asked

import numpy as np

cdef enum:
    LEVELS = 4  # kinds are those of one model, of these those of one tenant, of these one user, of these one size

ctypedef pair[int64_t, int64_t] Branch


def number_kinds(asked, index):
    """The narrowest kind of each job; and by kind the one it is part of, how many traits it has, and one of its jobs.

    Kind 0 are all jobs. Each job is of its model's kind, and within that of its tenant's, its user's and its size's.
    """
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef Ints jobs = ints(index), narrowest
    cdef map[Branch, int64_t] known
    cdef map[Branch, int64_t].iterator found
    cdef vector[int64_t] wider, traits, examples
    cdef int64_t trait_of[LEVELS]
    cdef int64_t at, level, kind, kinds = 1
    cdef Branch branch
    cdef Asked* ask
    result = np.empty(jobs.size, np.int64)
    narrowest = ints(result)
    wider.push_back(0)
    traits.push_back(0)
    examples.push_back(jobs.at[0] if jobs.size else 0)
    for at in range(jobs.size):
        ask = &all_asked[jobs.at[at]]
        trait_of[0], trait_of[1], trait_of[2], trait_of[3] = ask.model, ask.tenant, ask.user, ask.gpus
        kind = 0
        for level in range(LEVELS):
            branch = Branch(kind, trait_of[level])
            found = known.find(branch)
            if found == known.end():
                known[branch] = kinds
                wider.push_back(kind)
                traits.push_back(level + 1)
                examples.push_back(jobs.at[at])
                kind = kinds
                kinds += 1
            else:
                kind = dereference(found).second
        narrowest.at[at] = kind
    return result, np.array(wider, np.int64), np.array(traits, np.int64), np.array(examples, np.int64)


def chances_to_end(ended, prior, wider, kinds, ages, double weight):
    """By kind and class: the chance that a job which comes as far ends there.

    It follows the product-limit estimate: the ended jobs there over all that came as far, jobs still in the system
    counted where they have passed the class. Among those of kind 0 count the jobs of `prior`; among those of another
    kind, `weight` jobs that fare as the kind it is part of does. One that has all jobs of that kind fares as it, too.
    """
    cdef Ints ends = ints(ended), part_of = ints(wider), narrowest = ints(kinds), classes_of = ints(ages)
    cdef Floats believed = floats(prior), chances
    cdef int64_t at, kind, row, above, classes = prior.size
    cdef double came, passed, fare
    cdef vector[int64_t] here, jobs
    result = np.zeros(ended.shape)
    chances = floats(result)
    here.assign(ends.size, 0)
    jobs.assign(part_of.size, 0)
    for at in range(narrowest.size):
        here[narrowest.at[at] * classes + classes_of.at[at]] += 1
    for kind in range(part_of.size - 1, -1, -1):  # a kind has a larger number than the one it is part of
        row, above = kind * classes, part_of.at[kind] * classes
        for at in range(classes):
            jobs[kind] += ends.at[row + at] + here[row + at]
            if kind:
                here[above + at] += here[row + at]
    for kind in range(part_of.size):
        row, above = kind * classes, part_of.at[kind] * classes
        came, passed = weight if kind else 0.0, 0.0
        for at in range(classes - 1, -1, -1):
            fare = weight * chances.at[above + at] if kind else believed.at[at]
            came += ends.at[row + at] + (0.0 if kind else fare)
            if kind and jobs[kind] == jobs[part_of.at[kind]]:
                chances.at[row + at] = chances.at[above + at]
            elif came + passed > 0:
                chances.at[row + at] = (ends.at[row + at] + fare) / (came + passed)
            passed += here[row + at]
    return result
