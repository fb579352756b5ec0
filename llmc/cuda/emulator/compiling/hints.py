"""What a compiler's message about a kernel means, and what to write instead: one sentence for each usual mistake.

Habits from Python are in python_habits.py.
"""

import re

SIZE = (
    "the size of an array must be known when the kernel is compiled: use a constant or a template parameter, or "
    "declare `extern __shared__ float s[];` and pass the bytes as shared_mem at the launch"
)
CAST = "look at the same memory as another type with a cast that keeps const: `reinterpret_cast<const float4*>(x)[i]`"
ADDRESS = "the first argument of an atomic is an address: `&x[i]`, or `x + i`"
MASK = "its first argument is the mask of the lanes that take part: `__shfl_down_sync(0xffffffff, value, 16)`"
ONE_TYPE = "both arguments must have the same type: `fmaxf(x, 0.0f)` for floats"
CUB = (
    "the emulator has these parts of CUB: WarpReduce, WarpScan, BlockReduce, BlockScan, BlockLoad, BlockStore, "
    "BlockExchange and BlockRadixSort, all in cub/cub.cuh"
)
MIXED = "convert one of the two first, as in `__bfloat162float(h) + 1.5f` or `__half2float(h) + 1.5f`"
HINTS = (  # (pattern in the compiler's message, hint)
    (r"storage size of|variable.length array|not a constant initializer|constant initializer", SIZE),
    (r"conversion from '(?:const )?(?:float|int|double)' to non-scalar type '(?:float|int)\d'", CAST),
    (
        r"cannot initialize.*'(?:const )?\w+\d \*'.*\*'|convert '[\w ]+\*' to '(?:const )?\w+\d\*'",
        CAST,
    ),
    (r"casts away (?:const|qualifiers)", CAST),
    (
        r"is not captured|cannot be implicitly captured",
        "a lambda sees variables that it captures: `[=]` copies them all",
    ),
    (
        r"no matches converting function|address of overloaded function .* does not match",
        "the template arguments in name_expressions must be as many as the template has: types for `class T`, numbers "
        "for `int N`",
    ),
    (r"wrong number of template arguments|too few template arguments", "give the type all of its template arguments"),
    (r"expected ',' or '\.\.\.'", "a comma is missing between two parameters"),
    (r"expected '[;,].* before|expected ';'|expected ',' or ';'", "a `;` is missing here or on the line above"),
    (r"expected '\)'", "a `)` is missing, or a `;` stands where a comma belongs"),
    (r"expected '\}'", "a `{` was opened and never closed"),
    (
        r"function.definition is not allowed here",
        "a function is defined outside of others, or a `{` above is never closed",
    ),
    (r"expected declaration before '\}'|extraneous closing brace", "there is one `}` too many"),
    (
        r"'else' without|expected expression.*else",
        "only one statement can stand between if and else: put several in braces",
    ),
    (
        r"expected (?:primary-)?expression|expected unqualified-id",
        "a word or bracket is missing, or there is one too many",
    ),
    (r"assignment of read-only|cannot assign to|read-only variable", "what is declared const cannot be written to"),
    (r"invalid conversion from 'const|discards qualifiers", "a pointer to const cannot become one that writes"),
    (r"return-statement with a value|should not return a value", "a kernel returns nothing: `return;` ends it"),
    (r"must return a value|void value not ignored", "a function that returns void has no value"),
    (
        r"'(?:const )?(?:struct )?(?:u?int3|dim3)'.*no member named|no member named .* in '(?:u?int3|dim3)'",
        "there are .x, .y and .z",
    ),
    (
        r"request for member .* non-class type|member reference base type",
        "it is not an object: an array does not know its size",
    ),
    (
        r"operator\[\]' \(operand types are '\w+\d'|type '(?:float|int)\d' does not provide a subscript",
        "its elements are .x, .y, .z, .w",
    ),
    (
        r"operator%|'%'|operands to binary expression \('(?:const )?float'",
        "% is for integers; for floats it is fmodf(a, b)",
    ),
    (r"invalid operands.*\*'.*\*'", "these are pointers: take one element of each, as in `x[i] + y[i]`"),
    (
        r"cannot convert '(?:const )?(?:float|int|double)' to '[\w ]+\*'",
        "this is an array: write one element, `x[i] = …`",
    ),
    (
        r"assigning to '[\w ]+\*.*from.*'(?:const )?(?:float|int|double)'",
        "this is an array: write one element, `x[i] = …`",
    ),
    (r"invalid array assignment|array type .* is not assignable", "an array is copied element by element, in a loop"),
    (r"ambiguous.*(?:__half|__nv_bfloat16)", MIXED),
    (r"'atomic(?:Max|Min)\((?:float|double)", "CUDA has no atomic maximum of floats: use a loop with atomicCAS"),
    (r"'atomic\w+\([\w ]+&", ADDRESS),
    (r"'__shfl_\w*sync\(", MASK),
    (r"'(?:std::)?(?:max|min)\(|call to '(?:max|min)'", ONE_TYPE),
    (r"(?:is not a member of|in namespace) 'cub'", CUB),
    (
        r"\\U0000feff|\ufeff|U\+FEFF",
        "the text begins with a byte-order mark, which is not part of C: read the file with encoding='utf-8-sig'",
    ),
    (r"too (?:few|many) arguments", "call it with exactly the arguments that it is declared with"),
    (r"no matching function", "no function of that name takes these arguments"),
    (r"redefinition of|redeclaration of|conflicting declaration", "this name is declared twice"),
    (r"lvalue required", "only a variable or an element of an array can stand here"),
)
HEADERS = (  # (name, header that declares it)
    (r"(?:__)?half2?$|__\w*half\w*$|h(?:add|mul|exp|sqrt)\w*$", "cuda_fp16.h"),
    (r"(?:__)?nv_bfloat162?$|__\w*bfloat16\w*$", "cuda_bf16.h"),
    (r"__nv_fp8\w*$|__nv_cvt_\w*fp8\w*$", "cuda_fp8.h"),
    (r"cooperative_groups$", "cooperative_groups.h"),
    (r"nvcuda$|wmma$", "mma.h"),
    (r"cub$", "cub/cub.cuh"),
    (r"curand\w*$", "curand_kernel.h"),
    (r"__pipeline_\w+$", "cuda_pipeline.h"),
)
LIMITED = "inside a kernel only CUDA's device headers exist, as with NVRTC"
OTHER_HEADERS = (  # (header that is not there, what to do)
    (
        r"^(?:cublas|cudnn|cufft|cusparse|cusolver|nccl|helper_|thrust/)",
        "this one is for host code; leave out the #include and call that library from Python",
    ),
    (r"^cub/", CUB),
    (r"^(?:cute|cutlass)/", "CUTLASS is not one of them; write out what the kernel needs of it"),
    (
        r"\.(?:h|hpp|cuh|cu|inl)$",
        "for a header of your own, pass its folder, options=('-Ifolder',), or copy what the kernel needs of it "
        "into the text",
    ),
    (r"", "leave out the #include"),
)
FROM_HOST = (  # (names, hint)
    (
        ("vector", "string", "map", "set", "unordered_map"),
        "a kernel has no containers: use a plain array, `float v[8];`, or an argument",
    ),
    (("cout", "endl", "cerr"), 'a kernel prints with printf("%f\\n", x)'),
    (("rand", "srand", "mt19937"), "random numbers come from curand_kernel.h: curand_init, then curand_uniform"),
    (
        ("sort", "accumulate", "fill", "copy", "transform"),
        "it runs on the host: write the loop yourself, or launch a kernel for it",
    ),
    (
        ("strlen", "strcmp", "strcpy", "sprintf", "fopen", "exit", "time"),
        "it is a host function, which no GPU has",
    ),
    (("cg",), "write `namespace cg = cooperative_groups;` after #include <cooperative_groups.h>"),
)


def by_message(text) -> str:
    """The hint for a compiler's message, "" if none is known."""
    if wanted := re.search(r"(?:fatal error: |^)'?([\w./+-]+)'?: No such file|'([\w./+-]+)' file not found", text):
        header = wanted[1] or wanted[2]
        return f"{LIMITED}; {next(do for pattern, do in OTHER_HEADERS if re.search(pattern, header))}"
    return next((hint for pattern, hint in HINTS if re.search(pattern, text)), "")


def by_name(name, code="") -> str:
    """The hint for a name that is not declared: where it comes from, or that it belongs to the host; or ""."""
    if known := next((hint for names, hint in FROM_HOST if name in names), ""):
        return known
    if name in ("__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__any", "__all", "__ballot"):
        return f"CUDA no longer has it: `{name}_sync(0xffffffff, …)` takes the mask of the lanes that take part first"
    if re.match(r"(?:cuda|cublas|cublasLt|cudnn|cufft|nccl)[A-Z]", name):
        return "it belongs to the host's part of CUDA: leave it out, and do this from Python"
    header = next((header for pattern, header in HEADERS if re.match(pattern, name)), "")
    if f"<{header}>" in code:
        return f"the emulator's {header} does not have {name}"
    return f"{name} needs `#include <{header}>` at the top" if header else ""
