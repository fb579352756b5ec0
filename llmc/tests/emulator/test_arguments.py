"""What may be passed to a kernel: everything that would go wrong on a GPU is refused before the launch."""

import struct

import numpy as np
import pytest

from llmc.cuda.emulator.calling.arguments import convert
from llmc.cuda.emulator.calling.packing import Packer
from llmc.cuda.emulator.calling.parameters import parse
from llmc.cuda.emulator.calling.shapes import check_launch
from llmc.errors import KernelError


def one(kind, value):
    """The argument that a kernel k with one parameter x of this kind gets."""
    return convert(kind, ("x",), (value,), "k")[0]


def packed(kind, value):
    """Its bytes by the quick way, and by the slow one."""
    parameters = parse(kind, ("x",), "k")
    packer = Packer(parameters, "k")
    packer.pack((value,))
    quick = bytes(packer._storage)
    expected = one(kind, value)
    size = 8 if parameters[0].pointer else parameters[0].size
    if expected.packed is None:
        address = 0 if expected.array is None else expected.array.ctypes.data
        return quick[:size], struct.pack("Q", address)
    return quick[:size], expected.packed


def bfloat16():
    return pytest.importorskip("ml_dtypes").bfloat16


# ------------------------------------------------------------------------------------------------------ arrays

FITS = {
    "float": ("pf4", np.float32),
    "const-float": ("Pf4", np.float32),
    "float4": ("pf4x4", np.float32),
    "float2-complex": ("pf4x2", np.complex64),
    "half": ("pf2", np.float16),
    "half2": ("pf2x2", np.float16),
    "bf16-bits": ("pb2", np.uint16),
    "double": ("pf8", np.float64),
    "int": ("pi4", np.int32),
    "unsigned-int32": ("pu4", np.int32),
    "char-bool": ("pi1", np.bool_),
    "bool": ("p?1", np.bool_),
    "size_t": ("pu8", np.uint64),
    "void": ("p?0", np.float64),
    "struct": ("ps8", [("a", np.int32), ("b", np.float32)]),
}


@pytest.mark.parametrize(("kind", "dtype"), FITS.values(), ids=FITS)
def test_arrays_that_fit(kind, dtype):
    array = np.zeros(6, dtype)
    assert one(kind, array).array is array
    quick, slow = packed(kind, array)
    assert quick == slow == struct.pack("Q", array.ctypes.data)


def test_bfloat16_arrays_fit():
    quick, slow = packed("pb2", np.zeros(4, bfloat16()))
    assert quick == slow
    with pytest.raises(KernelError, match="is bfloat16, but `__half. x` expects float16"):
        one("pf2", np.zeros(4, bfloat16()))


WRONG_ARRAYS = {
    "double": ("pf4", np.zeros(3), r"is float64, but `float\* x` expects float32: .*\.astype\(np\.float32\)"),
    "int-for-float": ("Pf4", np.zeros(3, np.int32), r"is int32, but `const float\* x` expects float32"),
    "long": ("pi4", np.zeros(3, np.int64), "is int64, .* expects int32"),
    "float4": ("pf4x4", np.zeros(4), r"`float4\* x` expects float32"),
    "uint4": ("pu4x4", np.zeros(4), r"`uint4\* x` expects uint32"),
    "half": ("pf2", np.zeros(3, np.float32), "expects float16"),
    "bytes": ("pu4x4", np.zeros(32, np.uint8), r"\.astype\(np\.uint32\), or take its bytes .* \.view\(np\.uint32\)"),
    "bf16": ("pb2", np.zeros(3, np.float16), r"expects bfloat16: .*ml_dtypes\.bfloat16"),
    "complex": ("pi4x2", np.zeros(3, np.complex64), "is complex64"),
    "byte-order": ("pf4", np.zeros(3, ">f4"), "the other byte order"),
    "strided": ("pf4", np.zeros(6, np.float32)[::2], r"is not contiguous .*ascontiguousarray"),
    "none": ("pf4", None, "is None; for the null pointer, pass 0"),
    "list": ("pf4", [1.0, 2.0], r"is a list; turn it into an array with np\.array\(\.\.\., np\.float32\)"),
    "number": ("pf4", 3, r"is the number 3, but `float\* x` takes an array"),
    "scalar": ("pf4", np.float32(3), "takes an array"),
    "text": ("pf4", "x", "is a str"),
}


@pytest.mark.parametrize(("kind", "value", "told"), WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
def test_arrays_that_do_not_fit(kind, value, told):
    for call in (one, packed):
        with pytest.raises(KernelError, match=rf"^k: argument 0 \(x\) .*{told}.*\.$"):
            call(kind, value)


def test_a_read_only_array_is_for_a_pointer_to_const():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    quick, slow = packed("Pf4", array)
    assert quick == slow
    with pytest.raises(KernelError, match=r"is read-only, but `float\* x` may write to it; copy the array"):
        one("pf4", array)


@pytest.mark.parametrize("array", [np.zeros((), np.float32), np.zeros((0, 3), np.float32)], ids=["0-d", "empty"])
def test_arrays_of_one_element_and_of_none(array):
    quick, slow = packed("pf4", array)
    assert quick == slow


def test_zero_is_the_null_pointer():
    argument = one("pf4", 0)
    assert argument.array is None and argument.packed is None
    assert packed("pf4", 0) == (bytes(8), bytes(8))


# ------------------------------------------------------------------------------------------------------ values

VALUES = {
    "int": ("vi4", 7, "i", 7),
    "int-numpy": ("vi4", np.int32(-7), "i", -7),
    "int-from-long": ("vi4", np.int64(-7), "i", -7),
    "int-from-bool": ("vi4", True, "i", 1),
    "unsigned": ("vu4", 2**32 - 1, "I", 2**32 - 1),
    "char": ("vi1", -128, "b", -128),
    "long-long": ("vi8", -(2**63), "q", -(2**63)),
    "size_t": ("vu8", 2**64 - 1, "Q", 2**64 - 1),
    "float": ("vf4", np.float32(0.1), "f", np.float32(0.1)),
    "double": ("vf8", 0.1, "d", 0.1),
    "double-numpy": ("vf8", np.float64(0.1), "d", 0.1),
    "half": ("vf2", np.float16(0.5), "e", 0.5),
    "bool": ("v?1", True, "?", True),
    "bool-numpy": ("v?1", np.True_, "?", True),
    "bf16-bits": ("vb2", np.uint16(0x3F80), "H", 0x3F80),
}


@pytest.mark.parametrize(("kind", "value", "code", "read"), VALUES.values(), ids=VALUES)
def test_values(kind, value, code, read):
    quick, slow = packed(kind, value)
    assert quick == slow and struct.unpack(code, slow) == (read,)


def test_structs_by_value():
    pair = np.array((1, 2.5), [("a", np.int32), ("b", np.float32)])
    assert packed("vs8", pair) == (pair.tobytes(), pair.tobytes())
    four = np.arange(4, dtype=np.float32)
    assert packed("vf4x4", four) == (four.tobytes(), four.tobytes())
    assert packed("vf8x2", 1 + 2j)[1] == struct.pack("dd", 1, 2)


WRONG_VALUES = {
    "float-for-int": ("vi4", 2.0, r"is the number 2\.0, but `int x` takes an integer: round it with int"),
    "float32-for-int": ("vi4", np.float32(2), "takes an integer"),
    "python-float": (
        "vf4",
        0.5,
        r"is a Python float, .* a double, .* reads float32: write np\.float32\(0\.5\)",
    ),
    "float64-for-float": ("vf4", np.float64(0.5), r"write np\.float32\(0\.5\)"),
    "int-for-float": ("vf4", 3, r"is the number 3, .*write np\.float32\(3\)"),
    "int-for-double": ("vf8", 3, r"write np\.float64\(3\)"),
    "float32-for-double": ("vf8", np.float32(3), r"write np\.float64\(3\.0\)"),
    "float-for-half": ("vf2", 0.5, r"write np\.float16\(0\.5\)"),
    "float-for-bf16": ("vb2", 0.5, r"write ml_dtypes\.bfloat16\(0\.5\)"),
    "int-too-large": ("vi4", 2**31, r"is 2147483648, which `int x` cannot hold \(-2147483648 to 2147483647\)"),
    "long-too-large": ("vi4", np.int64(2**31), "cannot hold"),
    "negative": ("vu4", -1, r"is -1, which `unsigned int x` cannot hold \(0 to 4294967295\)"),
    "int32-for-long": ("vi8", np.int32(1), r"has 4 bytes where `long long x` reads 8"),
    "two-for-bool": ("v?1", 2, "is True or False"),
    "array-for-int": ("vi4", np.zeros(3, np.int32), r"is an array of int32 .*\(3,\), but `int x` takes one number"),
    "text": ("vi4", "3", "is a str"),
    "none": ("vi4", None, "is a NoneType"),
    "struct": ("vs8", np.zeros(3, np.float32), "8 bytes"),
}


@pytest.mark.parametrize(("kind", "value", "told"), WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_values_that_do_not_fit(kind, value, told):
    for call in (one, packed):
        with pytest.raises(KernelError, match=rf"^k: argument 0 \(x\) .*{told}.*\.$"):
            call(kind, value)


# ------------------------------------------------------------------------------------------------------- count

NAMES = ("x", "n", "a")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((np.zeros(3, np.float32),), r"^k: only 1 of 3 arguments were passed; missing: int n, double a\.$"),
        (
            (np.zeros(3, np.float32), 1, 2.0, 3),
            r"^k: 4 arguments were passed, but it takes 3: float\* x, int n, double a\.$",
        ),
        (np.zeros(3, np.float32), "write them as a tuple"),
    ],
    ids=["few", "many", "bare"],
)
def test_wrong_count(args, told):
    with pytest.raises(KernelError, match=told):
        convert("pf4,vi4,vf8", NAMES, args, "k")
    with pytest.raises(KernelError, match=told):
        Packer(parse("pf4,vi4,vf8", NAMES, "k"), "k").pack(args)


def test_unnamed_parameters_go_by_their_number():
    with pytest.raises(KernelError, match="^k: argument 1 is the number 0.5"):
        convert("pf4,vi4", ("only_one",), (np.zeros(3, np.float32), 0.5), "k")


def test_a_kernel_without_parameters():
    assert convert("", (), ()) == []
    Packer(()).pack(())


def test_pointers_lead_to_the_values():
    import ctypes

    x = np.arange(3, dtype=np.float32)
    packer = Packer(parse("vi1,pf4,vs24,vf8"))
    packer.pack((-3, x, np.arange(3, dtype=np.int64), 0.25))
    read = [ctypes.string_at(packer.pointers[i], size) for i, size in enumerate((1, 8, 24, 8))]
    assert read == [b"\xfd", struct.pack("Q", x.ctypes.data), np.arange(3).tobytes(), struct.pack("d", 0.25)]


# ---------------------------------------------------------------------------------------------- grid and block


def test_grid_and_block_are_filled_up():
    assert check_launch("k", (np.int64(4),), (8, 4)) == ((4, 1, 1), (8, 4, 1))


LIMITS = {
    "threads": ((1,), (32, 33), {}, r"a block has 32 · 33 · 1 = 1056 threads, but 1024 is the most"),
    "z": ((1,), (1, 1, 65), {}, "65 threads along z, but 64"),
    "grid-y": ((1, 65536), (1,), {}, "65536 blocks along y, but 65535"),
    "grid-x": ((2**31,), (1,), {}, "2147483648 blocks along x"),
    "zero": ((0,), (32,), {}, r"grid is \(0,\); each size must be at least 1"),
    "negative": ((1,), (-1,), {}, r"block is \(-1,\)"),
    "float": ((10 / 3,), (32,), {}, "/ makes a float: use //"),
    "int": (4, (32,), {}, r"grid is 4; CuPy needs a tuple: \(4,\)"),
    "list": ((1,), [32], {}, "CuPy needs a tuple"),
    "four": ((1, 1, 1, 1), (32,), {}, "one to three"),
    "shared": ((1,), (32,), {"shared_mem": 50000}, "max_dynamic_shared_size_bytes = 50000 before the launch"),
    "static-alone": ((1,), (32,), {"static": 52000}, "arrays take 52000 bytes, but at most 49152 fit"),
    "static": ((1,), (32,), {"shared_mem": 9000, "static": 40960}, "may use only 8192"),
    "too-much": ((1,), (32,), {"shared_mem": 240000, "allowed": 232448}, "never has more than 232448"),
    "shared-float": ((1,), (32,), {"shared_mem": 1.5}, "number of bytes"),
    "shared-negative": ((1,), (32,), {"shared_mem": -1}, "number of bytes"),
}


@pytest.mark.parametrize(("grid", "block", "options", "told"), LIMITS.values(), ids=LIMITS)
def test_what_a_gpu_does_not_launch(grid, block, options, told):
    with pytest.raises(KernelError, match=rf"^k: .*{told}"):
        check_launch("k", grid, block, **options)


def test_more_shared_memory_for_those_who_ask():
    check_launch("k", (1,), (32,), 49152)
    check_launch("k", (1,), (32,), 100000, allowed=100000)
