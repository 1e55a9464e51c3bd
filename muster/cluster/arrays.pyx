"""NumPy arrays as compiled code sees them: a pointer and a length, checked once where Python calls."""

cimport numpy as cnp

cnp.import_array()


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
