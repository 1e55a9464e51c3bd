"""NumPy arrays as compiled code sees them: a pointer and a length, checked once where Python calls."""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t

cdef struct Ints:
    int64_t* at
    Py_ssize_t size

cdef struct Floats:
    double* at
    Py_ssize_t size

cdef struct Bools:
    uint8_t* at
    Py_ssize_t size

cdef Ints ints(cnp.ndarray array) except *
cdef Floats floats(cnp.ndarray array) except *
cdef Bools bools(cnp.ndarray array) except *
cdef void* records(cnp.ndarray array, Py_ssize_t size) except NULL
