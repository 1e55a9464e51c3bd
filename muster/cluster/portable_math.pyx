"""exp, log and powers of arrays by the C library, one number at a time.

NumPy's own use wider instructions where a processor has them, which differ in the last bit. A result must not depend
on the machine.
"""

from libc.math cimport exp as exp_of_one
from libc.math cimport log as log_of_one
from libc.math cimport log10 as log10_of_one
from libc.math cimport pow as power_of_one

from muster.cluster.arrays cimport Floats, floats

import numpy as np

ctypedef double (*Function)(double) noexcept nogil


cdef object _of_each(Function function, object values):
    numbers = np.array(values, np.float64, order="C")
    cdef Floats each = floats(numbers)
    cdef Py_ssize_t at
    for at in range(each.size):
        each.at[at] = function(each.at[at])
    return numbers


def exp(values):
    """e to the power of each number."""
    return _of_each(exp_of_one, values)


def log(values):
    """The natural logarithm of each number."""
    return _of_each(log_of_one, values)


def log10(values):
    """The logarithm to base 10 of each number."""
    return _of_each(log10_of_one, values)


def power(bases, exponents):
    """Each base to the power of its exponent; either may be one number for all."""
    cdef Floats base, exponent
    cdef Py_ssize_t at
    cdef double of_all
    if isinstance(exponents, float):
        results = np.array(bases, np.float64, order="C")
        base, of_all = floats(results), exponents
        for at in range(base.size):
            base.at[at] = power_of_one(base.at[at], of_all)
        return results
    both = np.broadcast(bases, exponents)
    results = np.array(np.broadcast_to(bases, both.shape), np.float64, order="C")
    upto = np.array(np.broadcast_to(exponents, both.shape), np.float64, order="C")
    base, exponent = floats(results), floats(upto)
    for at in range(base.size):
        base.at[at] = power_of_one(base.at[at], exponent.at[at])
    return results
