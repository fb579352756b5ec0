"""What the emulator does not run, in one sentence: the line, the feature, what to do instead.

It is said before the compiler runs, whose message would be about something else.
"""

import re

from llmc.cuda.emulator.compiling.text import line_at, mask
from llmc.errors import KernelError

IN_TWO = "end the kernel where all blocks must meet, and launch a second one"
BY_HAND = "copy with plain loads and stores"
# (pattern, feature, what to do instead); they are looked for in the text without comments and strings
FEATURES = (
    (
        r"<<<",
        "a launch from C++ (<<<...>>>: host code or dynamic parallelism)",
        "launch it from Python",
    ),
    (r"\bthis_grid\b|\bgrid_group\b|\bthis_multi_grid\b", "grid-wide synchronisation", IN_TWO),
    (
        r"\bcluster_group\b|\bthis_cluster\b|\b__cluster_dims__\b",
        "thread block clusters",
        "use single blocks",
    ),
    (r"\bCUtensorMap\b|\bcp_async_bulk\w*|\bcuda::device::experimental\b|\bmemcpy_async_tx\b", "TMA", BY_HAND),
    (r"\bwgmma\w*|\btcgen05\w*", "wgmma", "use nvcuda::wmma or plain arithmetic"),
    (
        r"\btexture\s*<|\btex[123]D\w*\s*[<(]|\bsurf[123]D\w*\s*[<(]|\bcuda(?:Texture|Surface)Object_t\b",
        "textures and surfaces",
        "read from a pointer",
    ),
    (r"\b__managed__\b", "managed memory", "pass an array as an argument"),
    (r"\bint\s+main\s*\(", "host code (main)", "keep the kernels, and launch them from Python"),
    (r"\bcu(?:da|blas|rand|fft|dnn)[A-Z]\w*\s*\(", "host code ({found})", "keep the kernels, and do this from Python"),
)
ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:volatile|__volatile__)?\s*\(\s*(\"(?:\\.|[^\"\\])*\")?")


def refuse(code: str):
    """Raise KernelError for the first line with something that the emulator does not run."""
    masked = mask(code)
    found = [each for each in (*_features(masked), _inline_ptx(code, masked)) if each]
    if found:
        position, feature, instead = min(found)
        line = line_at(code, position)
        raise KernelError(f"line {line}: the emulator does not run {feature}; {instead}.", line)


def _features(masked):
    for pattern, feature, instead in FEATURES:
        if match := re.search(pattern, masked):
            word = match.group().rstrip("( \t\n")
            yield match.start(), feature.format(found=word), instead


def _inline_ptx(code, masked):
    """The first asm statement that contains an instruction; an empty one only holds the compiler back."""
    for match in ASM.finditer(masked):
        text = code[match.start(1) : match.end(1)].strip('"') if match.group(1) else " "
        if text.strip() or not match.group(1):
            words = text.strip().split("\\")[0].split()
            what = f"inline PTX ({words[0]})" if words else "inline PTX (asm)"
            return match.start(), what, "write it in CUDA C++"
    return None
