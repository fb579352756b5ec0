"""What the emulator does not run, in one sentence: the line, the feature, what to do instead.

Only what a kernel uses counts. So a text in which such a word occurs is preprocessed first, which settles macros and
#if. Then every function that none of the wanted kernels uses is left out, and a kernel that does use such a feature
gets an entry that says so when it is launched. ptx/ says which inline PTX the emulator knows.
"""

import re
from pathlib import Path

from llmc.cuda.emulator.compiling.dynamic_shared import KERNEL_FILE
from llmc.cuda.emulator.compiling.ptx.statements import statements
from llmc.cuda.emulator.compiling.ptx.translation import problem, translate
from llmc.cuda.emulator.compiling.source import ENTRIES_FILE, INCLUDE, SOURCE_FILE
from llmc.cuda.emulator.compiling.text import mask, without_directives
from llmc.cuda.emulator.compiling.units import WORD, reached, units, used_by
from llmc.errors import KernelError

FROM_PYTHON = "keep the kernels, and do this from Python"
# (pattern, feature, what to do instead); they are looked for in the text without comments and strings
FEATURES = (
    (r"<<<", "a launch from C++ (<<<...>>>: host code or dynamic parallelism)", "launch it from Python"),
    (
        r"\bthis_multi_grid\b|\bmulti_grid_group\b",
        "synchronisation of several GPUs",
        "launch one kernel after the other",
    ),
    (r"\bcluster_group\b|\bthis_cluster\b", "thread block clusters", "use single blocks"),
    (r"\btcgen05\w*", "Blackwell's tensor cores", "use wgmma, mma.sync or nvcuda::wmma"),
    (r"\bcuTensorMap\w+\s*\(", "host code ({found})", "use llmc.cuda.tensor_map from Python"),
    (
        r"\btexture\s*<|\btex[123]D\w*\s*[<(]|\bsurf[123]D\w*\s*[<(]|\bcuda(?:Texture|Surface)Object_t\b",
        "textures and surfaces",
        "read from a pointer",
    ),
    (r"\bint\s+main\s*\(", "host code (main)", "keep the kernels, and launch them from Python"),
    (r"\bcu(?:da|blas|rand|fft|dnn)[A-Z]\w*\s*\(", "host code ({found})", FROM_PYTHON),
    (
        r"\b(?:throw|try|catch)\b",
        "exceptions ({found}), which CUDA does not have either",
        "use assert, or write an error code to an array",
    ),
    (
        r"(?<!::)\bDevice(?:Reduce|Scan|RadixSort|Select|Histogram)\s*::|\bcub::Device[A-Z]\w*\s*::",
        "host code ({found})",
        FROM_PYTHON,
    ),
)
# What a kernel says about its cluster, before and after the preprocessor: the compiler finds out whether it has one
# block, but must see only the kernels that are wanted.
CLUSTER, ONE_BLOCK = "__cluster_dims__", "llmc_one_block"
MARKER = re.compile(r'^# (\d+) "([^"]*)"([^\n]*)$', re.MULTILINE)  # line, file, flags: 3 is a header of the system
REFUSED = 'extern "C" __attribute__((visibility("default"))) const char* llmc_refusal_{}() {{ return "{} {}"; }}'


def is_suspicious(code: str) -> bool:
    """Whether the text contains a word that may be refused, used or not, apart from inline PTX."""
    masked = mask(code)
    return CLUSTER in masked or next(_features(masked), None) is not None


def _features(masked):
    """(position, sentence) of everything in the text that the emulator does not run, apart from inline PTX."""
    own = set(re.findall(r"\b(?:class|struct|namespace)\s+(\w+)", masked))
    for pattern, feature, instead in FEATURES:
        for match in re.finditer(pattern, masked):
            word = WORD.match(match.group())
            if word and (word[0] in own or re.search(rf"\b{word[0]}\s*\([^;{{}}]*\)\s*{{", masked)):
                continue  # not CUB's, but a class or a function of the text's own
            yield match.start(), f"the emulator does not run {_name(feature, match.group())}; {instead}"


def _name(feature, found) -> str:
    return feature.format(found=found.rstrip("(: \t\n"))


def settled(text: str, names) -> str:
    """A preprocessed text without the functions that none of the kernels `names` uses, nor a refused kernel's, and with
    C++ in place of inline PTX.

    The entry of a refused kernel becomes llmc_refusal_0(), the line and the sentence. Raises KernelError if all of them
    are refused.
    """
    text = _without_unused(text, names)
    return translate(text, _own(text))


def _without_unused(text, names) -> str:
    own = _own(text)
    found = sorted([*_features(own), *filter(None, (problem(text, each) for each in statements(text, own)))])
    if not found and ONE_BLOCK not in own:
        return text
    pieces = units(without_directives(own))
    wrong = {i: each for each in reversed(found) for i, unit in enumerate(pieces) if unit.start <= each[0] < unit.end}
    used = [used_by(own, pieces, name) for name in names]
    refused = {k: min(wrong[i] for i in used[k] & wrong.keys()) for k in range(len(names)) if used[k] & wrong.keys()}
    if refused and len(refused) == len(names):
        raise _error(text, refused[0])
    needed = set().union(*(used[k] for k in range(len(names)) if k not in refused))
    # methods stay with their class, and what they use with them
    kept = [each for each in pieces if not each.function and not reached(pieces, each.uses) & wrong.keys()]
    needed |= reached(pieces, set().union(*(each.uses for each in kept))) - wrong.keys()
    for i, unit in enumerate(pieces):
        explicit = re.match(r"template\s*[^<\s]", own[unit.start : unit.end])  # an instance: template void f<2>(int);
        if i not in needed and (unit.function or explicit or reached(pieces, unit.uses) & wrong.keys() or i in wrong):
            text = _blank(text, unit)
    gone = {name for i, unit in enumerate(pieces) if i not in needed and not unit.function for name in unit.names}
    return _entries(text, {k: _error(text, each) for k, each in refused.items()}, gone)


def _own(text) -> str:
    """The text of the kernel and of the user's own headers: everything from ours and the entries is blank."""
    starts = [*MARKER.finditer(text)]
    parts, end = [], 0
    for match, after in zip(starts, [*starts[1:], None]):
        until = after.start() if after else len(text)
        parts.append(_spaces(text[end : match.end()]))
        parts.append(text[match.end() : until] if _is_own(match) else _spaces(text[match.end() : until]))
        end = until
    return mask("".join(parts))


def _is_own(marker) -> bool:
    file = Path(marker[2])
    ours = file.is_relative_to(INCLUDE) or file.name in (ENTRIES_FILE, SOURCE_FILE) or marker[2].startswith("<")
    return not ours and "3" not in marker[3].split()


def _spaces(text):
    return re.sub(r"[^\n]", " ", text)


def _blank(text, unit) -> str:
    lines = text[unit.start : unit.end].split("\n")
    kept = [line if MARKER.fullmatch(line) else _spaces(line) for line in lines]
    return text[: unit.start] + "\n".join(kept) + text[unit.end :]


def _entries(text, refused, gone) -> str:
    """The text with other entries for the refused kernels, and without the addresses of variables that are gone."""
    lines = text.split("\n")
    for k, line in enumerate(lines):
        entry = re.search(r"\bllmc_entry_(\d+)\(", line)
        if entry and int(entry[1]) in refused:
            error = refused[int(entry[1])]
            said = str(error).replace('"', '\\"')
            lines[k] = REFUSED.format(entry[1], error.line, said)
        elif (variable := re.search(r"\bllmc_global_(\w+)\(", line)) and variable[1] in gone:
            lines[k] = ""
    return "\n".join(lines)


def _error(text, found) -> KernelError:
    position, sentence = found
    marker = [*MARKER.finditer(text, 0, position)][-1]
    line = int(marker[1]) + text.count("\n", marker.end() + 1, position)
    if marker[2] != KERNEL_FILE:
        return KernelError(f"{Path(marker[2]).name}, line {line}: {sentence}.")
    return KernelError(f"line {line}: {sentence}.", line)
