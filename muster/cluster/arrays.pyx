"""NumPy arrays as compiled code sees them: a pointer and a length, checked once where Python calls."""

cimport numpy as cnp

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    void* PyDataMem_RENEW(void* data, size_t size)

cdef extern from *:
    """
    static inline void muster_hold(PyArrayObject* array, void* data, npy_intp length) {
        ((PyArrayObject_fields*) array)->data = (char*) data;
        PyArray_DIMS(array)[0] = length;
    }
    """
    void hold "muster_hold"(cnp.ndarray array, void* data, cnp.npy_intp length)


cdef int _check(cnp.ndarray array, int kind, str name) except -1:
    """TypeError unless the array is of this type and its elements lie side by side."""
    if cnp.PyArray_TYPE(array) != kind or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise TypeError(f"a contiguous array of {name} is needed, not of {array.dtype}, or with gaps")
    return 0


cdef Ints ints(cnp.ndarray array) except *:
    """An array of whole numbers, of any number of dimensions."""
    cdef Ints view
    _check(array, cnp.NPY_INT64, "int64")
    view.at, view.size = <int64_t*> cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array)
    return view


cdef Floats floats(cnp.ndarray array) except *:
    """An array of numbers, of any number of dimensions."""
    cdef Floats view
    _check(array, cnp.NPY_FLOAT64, "float64")
    view.at, view.size = <double*> cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array)
    return view


cdef Bools bools(cnp.ndarray array) except *:
    """An array of truth values, of any number of dimensions."""
    cdef Bools view
    _check(array, cnp.NPY_BOOL, "bool")
    view.at, view.size = <uint8_t*> cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array)
    return view


cdef void* records(cnp.ndarray array, Py_ssize_t size) except NULL:
    """The records of a structured array, each of which takes so many bytes."""
    if cnp.PyArray_ITEMSIZE(array) != size or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise TypeError(f"contiguous records of {size} bytes are needed, not of {array.dtype.itemsize}")
    return cnp.PyArray_DATA(array)


def grow(cnp.ndarray array not None, Py_ssize_t length):
    """Make an array of its own longer in place; a large one is not copied, its memory is mapped elsewhere.

    What is added holds anything: unlike `resize`, which writes zeros, this touches no memory before it is used.
    Views of the array are lost.
    """
    if not cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_OWNDATA) or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise ValueError("an array of its own is needed, not a view")
    if length < array.shape[0]:
        raise ValueError(f"an array of {array.shape[0]} cannot grow to {length}")
    cdef Py_ssize_t row = cnp.PyArray_NBYTES(array) // array.shape[0] if array.shape[0] else 0
    cdef void* data = PyDataMem_RENEW(cnp.PyArray_DATA(array), row * length) if row else NULL
    if data == NULL:
        raise MemoryError(f"no memory for {length} rows of {row} bytes")
    hold(array, data, length)
