"""Attention in 16 bits by cuDNN, NVIDIA's own, through its Python package (the extra [cudnn]); on a GPU only.

It has the signatures of attention.py, and reads the packed qkv as it lies. What is to be computed is described once for
each size (a plan); a call then gives the addresses and launches on the current stream, so that it can be recorded into
a CUDA graph. Its backward pass adds to dq in the order in which blocks happen to finish: of all that llmc computes,
this alone gives equal runs different bits. With a fixed order it takes 9% more time and 0.8 GB more memory (H200, B=32
T=1024 NH=12 hs=64).
"""

from functools import cache
from math import sqrt
from typing import NamedTuple

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import scratch, seen

MISSING = (
    "cuDNN's attention needs NVIDIA's library and its Python package: install them with"
    ' `python -m pip install -e ".[cudnn]"`, or use --attention own.'
)


class Plan(NamedTuple):
    """A graph of cuDNN's, its names for the arrays of a call, in that order, and its bytes of scratch memory."""

    graph: object
    names: tuple
    workspace: int


def attention_forward(out, stats, qkv, NH):
    """*out, *stats from qkv: causal, scale 1/√hs.

    out (B, T, C), qkv (B, T, 3C), rows [q; k; v]: 16 bits. stats: float32 (B, NH, T), the logarithm of each query's sum
    of exponentials. Raises UserError without cuDNN, and for heads that it does not take.
    """
    _launch("forward", out, NH, (*_parts(qkv), out, stats))


def attention_backward(dqkv, dout, out, stats, qkv, NH):
    """*dqkv from dout and what the forward pass read and wrote. Shapes, types and errors: as above."""
    _launch("backward", out, NH, (*_parts(qkv), out, dout, stats, *_parts(dqkv)))


@cache
def library():
    """(the package, a handle). Raises UserError where a part is missing."""
    if cuda.device() != "gpu":
        raise UserError("cuDNN's attention needs a GPU; use --attention own, which runs everywhere.")
    try:
        import cudnn

        return cudnn, cudnn.create_handle()
    except (ImportError, OSError, RuntimeError) as error:
        raise UserError(MISSING) from error


def description() -> str:
    """ "cuDNN 9.19.0"."""
    return f"cuDNN {library()[0].backend_version_string()}"


def _parts(qkv):
    """q, k and v within the packed array, (B, T, C) each."""
    C = qkv.shape[2] // 3
    return qkv[..., :C], qkv[..., C : 2 * C], qkv[..., 2 * C :]


def _launch(what, out, NH, arrays):
    cudnn, handle = library()
    plan = _plan(what, *out.shape, NH, out.dtype.name)
    workspace = scratch("cudnn", (plan.workspace,), "uint8")  # (bytes,)
    addresses = {name: array.data.ptr for name, array in zip(plan.names, arrays, strict=True)}

    def launch():
        cudnn.set_stream(handle=handle, stream=cuda.xp.cuda.get_current_stream().ptr)
        plan.graph.execute(addresses, workspace.data.ptr, handle=handle)

    seen(f"cuDNN {what}", launch)


@cache
def _plan(what, B, T, C, NH, dtype) -> Plan:
    """Describe the "forward" or "backward" pass for arrays of this size and type."""
    cudnn, _ = library()
    try:
        graph, tensors = _describe(what, B, T, C, NH, dtype)
        graph.build([cudnn.heur_mode.A])
    except (RuntimeError, cudnn.cudnnGraphNotSupportedError) as error:
        reason = str(error).strip().rstrip(".")
        raise UserError(
            f"cuDNN cannot attend to T={T} tokens with heads of {C // NH} numbers on this GPU ({reason}); use"
            " --attention own."
        ) from error
    return Plan(graph, tuple(tensor.get_uid() for tensor in tensors), max(1, graph.get_workspace_size()))


def _describe(what, B, T, C, NH, dtype):
    """(a graph of cuDNN's, the tensors that a call must give it)."""
    cudnn, handle = library()
    number, exact = (
        {"bfloat16": cudnn.data_type.BFLOAT16, "float16": cudnn.data_type.HALF}[dtype],
        cudnn.data_type.FLOAT,
    )
    graph = cudnn.pygraph(io_data_type=number, intermediate_data_type=exact, compute_data_type=exact, handle=handle)
    hs, how = C // NH, dict(attn_scale=1 / sqrt(C // NH), use_causal_mask=True)

    def layout(row):
        """Sizes and steps of an array (B, NH, T, hs) that lies in memory as (B, T, row)."""
        return (B, NH, T, hs), (T * row, hs, row, 1)

    def given(dim, stride, data_type=number):
        return graph.tensor(dim=dim, stride=stride, data_type=data_type)

    def result(tensor, dim, stride, data_type=number):
        return tensor.set_output(True).set_dim(dim).set_stride(stride).set_data_type(data_type)

    packed, alone, per_query = layout(3 * C), layout(C), ((B, NH, T, 1), (NH * T, T, 1, 1), exact)
    qkv = [given(*packed) for _ in range(3)]
    if what == "forward":
        out, stats = graph.sdpa(*qkv, is_inference=False, **how)
        return graph, (*qkv, result(out, *alone), result(stats, *per_query))
    read = given(*alone), given(*alone), given(*per_query)  # out, dout, stats
    gradients = graph.sdpa_backward(*qkv, *read, **how)
    return graph, (*qkv, *read, *(result(gradient, *packed) for gradient in gradients))
