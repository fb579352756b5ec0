"""The encoder: token and position embeddings. Backward, every thread adds all rows, but only in its own channels."""

from numba import get_num_threads, prange

from llmc.backends.cpu.compiled import bounds, parallel


@parallel
def encoder_forward(out, tokens, wte, wpe):
    """out (B, T, C) = wte[tokens] + wpe[:T]."""
    B, T, C = out.shape
    for row in prange(B * T):
        b, t = row // T, row % T
        token = tokens[b, t]
        for c in range(C):
            out[b, t, c] = wte[token, c] + wpe[t, c]


@parallel
def _backward(dwte, dwpe, dout, tokens, parts):
    B, T, C = dout.shape
    for part in prange(parts):
        c0, c1 = bounds(part, parts, C)
        for b in range(B):
            for t in range(T):
                token = tokens[b, t]
                for c in range(c0, c1):
                    dwte[token, c] += dout[b, t, c]
                    dwpe[t, c] += dout[b, t, c]


def encoder_backward(dwte, dwpe, dout, tokens):
    """dwte (Vp, C), dwpe (maxT, C) += rows of dout (B, T, C), in the order of the tokens for any number of threads."""
    _backward(dwte, dwpe, dout, tokens, get_num_threads())
