"""Arrays that a kernel reaches through structs and arrays of pointers are checked like its arguments."""

from types import SimpleNamespace

import numpy as np

from llmc.cuda import RawKernel, inspect

CODE = """
struct Matrix { int width, height; float* elements; };
extern "C" __global__ void add(Matrix out, const float* const* rows, const Matrix* more, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out.elements[i] = rows[0][i] + rows[1][i] + more[1].elements[i];
}
extern "C" __global__ void exchange(float** rows) { float* first = rows[0]; rows[0] = rows[1]; rows[1] = first; }
extern "C" __global__ void neighbours(float* out)
{
    __shared__ float* where[64];
    float mine = threadIdx.x;
    where[threadIdx.x] = &mine;
    __syncthreads();
    out[threadIdx.x] = *where[63 - threadIdx.x];
}
"""
MATRIX = np.dtype([("width", "i4"), ("height", "i4"), ("elements", "u8")])


def matrix(array):
    return (*array.shape[::-1], array.ctypes.data)


def launched(n):
    """The report of `add`, and the sum: of the first 8 numbers where n is 8."""
    out, held = np.zeros((2, 4), np.float32), SimpleNamespace(last=np.full((2, 4), 100, np.float32))
    rows = [np.arange(8, dtype=np.float32), np.full(8, 10, np.float32)]
    pointers = np.array([row.ctypes.data for row in rows], np.uint64)
    more = np.array([(0, 0, 0), matrix(held.last)], MATRIX)
    given = (np.array(matrix(out), MATRIX), pointers, more, n)
    report = inspect(RawKernel(CODE, "add"), (1,), (32,), given)
    assert pointers.tolist() == [row.ctypes.data for row in rows]
    return report, out.ravel().tolist()


def test_structs_and_lists_of_rows_are_followed(emulator):
    report, out = launched(8)
    assert report.ok and out == [110 + i for i in range(8)]
    assert "reads rows[0][8], but rows[0] has 8 elements" in str(launched(9)[0])


def test_pointers_that_a_kernel_moves_lead_to_the_callers_arrays(emulator):
    rows = [np.zeros(3, np.float32), np.ones(3, np.float32)]
    pointers = np.array([row.ctypes.data for row in rows], np.uint64)
    RawKernel(CODE, "exchange", check=True)((1,), (1,), (pointers,))
    assert pointers.tolist() == [row.ctypes.data for row in rows[::-1]]


def test_an_address_where_no_array_is_known_is_told(emulator):
    out, rows = np.zeros((2, 4), np.float32), np.array([1 << 40, 1 << 40], np.uint64)
    given = (np.array(matrix(out), MATRIX), rows, np.zeros(2, MATRIX), 1)
    text = inspect(RawKernel(CODE, "add"), (1,), (1,), given).problems[0].text
    assert "The address is in rows, but no variable of the functions that are running holds an array" in text


def test_another_threads_variable_cannot_be_reached(emulator):
    out = np.zeros(64, np.float32)
    problem = inspect(RawKernel(CODE, "neighbours"), (1,), (64,), (out,)).problems[0]
    assert problem.kind == "invalid-pointer" and "leads to another thread's variable" in problem.text


def test_the_array_around_a_view_is_named(emulator):
    code = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 1; }'
    told = str(inspect(RawKernel(code, "k"), (1,), (32,), (np.zeros(100, np.float32)[10:40],)))
    assert "x has 30 elements (0 to 29) and is part of an array of 100 elements: a GPU would take one of those" in told
    assert "view" not in str(inspect(RawKernel(code, "k"), (1,), (32,), (np.zeros(100, np.float32)[90:],)))
