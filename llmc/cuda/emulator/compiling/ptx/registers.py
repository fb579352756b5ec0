"""PTX's types and registers, and the C++ that stands for them."""

from typing import NamedTuple

SIZES = {"b": (8, 16, 32, 64), "u": (8, 16, 32, 64), "s": (8, 16, 32, 64), "f": (32, 64)}
# of a type: its bits, and which registers will do: "b" those of bits, "f" those of floats, "p" predicates
TYPES = {f"{letter}{n}": (n, "bf" if letter in "bf" else "b") for letter, sizes in SIZES.items() for n in sizes}
TYPES |= dict.fromkeys(("f16", "bf16"), (16, "b")) | dict.fromkeys(("f16x2", "bf16x2", "x32"), (32, "b"))
TYPES["pred"] = (1, "p")
SPECIAL = {  # registers that tell a thread who it is
    "laneid": "llmc_ptx::laneid()",
    "warpid": "llmc_ptx::warpid()",
    "nwarpid": "llmc_ptx::nwarpid()",
    "smid": "0u",  # all blocks run on one multiprocessor
    "nsmid": "1u",
    "clock": "(unsigned)clock64()",
    "clock64": "(unsigned long long)clock64()",
    "globaltimer": "globaltimer()",
    "dynamic_smem_size": "llmc_dynamic_bytes()",
    "lanemask_eq": "(1u << llmc_lane())",
    "lanemask_lt": "llmc_ptx::lanes_below()",
    "lanemask_le": "(llmc_ptx::lanes_below() << 1 | 1)",
    "lanemask_gt": "~(llmc_ptx::lanes_below() << 1 | 1)",
    "lanemask_ge": "~llmc_ptx::lanes_below()",
}
AXES = {"tid": "threadIdx", "ntid": "llmc_block_dim", "ctaid": "blockIdx", "nctaid": "llmc_grid_dim"}
SPECIAL |= {"cluster_ctarank": "0u", "cluster_nctarank": "1u"}  # a cluster has one block
SPECIAL |= {f"cluster_{name}.{axis}": value for name, value in (("ctaid", "0u"), ("nctaid", "1u")) for axis in "xyz"}
AXES |= {"clusterid": "blockIdx", "nclusterid": "llmc_grid_dim"}
SPECIAL |= {f"{ptx}.{axis}": f"{cpp}.{axis}" for ptx, cpp in AXES.items() for axis in "xyz"}


class Register(NamedTuple):
    """What holds an operand in the C++ text."""

    cpp: str
    bits: int
    kind: str  # "b" bits, "f" float, "p" predicate, "n" a constant


def special(text: str) -> Register | None:
    """What `%laneid` and its like are."""
    cpp = SPECIAL.get(text.removeprefix("%"))
    return Register(cpp, 64 if text in ("%clock64", "%globaltimer") else 32, "b") if cpp else None
