"""The available versions of each kernel."""

from importlib import import_module
from inspect import signature
from typing import NamedTuple

from llmc import cuda
from llmc.bench.kernels.calls import MAKERS
from llmc.errors import UserError
from llmc.kernels import LAYERS, tensor_cores

AGREE, AGREE_TF32 = 1e-5, 2e-3  # of the largest element


class Version(NamedTuple):
    """One version of a contract function. number: None means the library's product that llmc uses, in TF32 if tf32."""

    layer: str
    function: str
    number: int | None
    tf32: bool = False

    @property
    def name(self) -> str:
        """ "layernorm_forward_v3", "matmul_forward_library"."""
        return f"{self.function}_v{self.number}" if self.number else f"{self.function}_library"

    def launch(self, **arguments):
        """Call it and return what it returns."""
        how = {"tf32": True} if self.tf32 else {}
        how |= {} if self.number else {"by": "cublas"}
        return getattr(self.module, self.function)(**arguments, version=self.number, **how)

    def make(self, sizes, numbers):
        """Make a Case of these sizes."""
        return MAKERS[self.function](sizes, numbers)

    @property
    def agree(self) -> float:
        """The largest error allowed, relative to the largest element."""
        return AGREE_TF32 if self.rounds else AGREE

    @property
    def chosen(self) -> bool:
        """Whether llmc uses this version."""
        cores = on_tensor_cores(self.module)
        return self.number in (None, cores[self.function][1] if self.tf32 else default(self.module, self.function))

    @property
    def by_library(self) -> bool:
        """Whether a library computes its products, so that its calls cannot be recorded in a graph."""
        return self.number in (None, getattr(self.module, "BY_LIBRARY", {}).get(self.function))

    @property
    def rounds(self) -> bool:
        """Whether it rounds its inputs to TF32."""
        return self.tf32 or self.number == on_tensor_cores(self.module).get(self.function, (None, 0))[1]

    @property
    def module(self):
        """llmc.kernels.<layer>."""
        return import_module(f"llmc.kernels.{self.layer}")

    @property
    def launches_by(self):
        """The module through which its kernels are found."""
        return self.module


def default(module, function) -> int:
    """The version of a function of llmc/kernels that runs unless one is asked for, on a GPU without tensor cores."""
    return signature(getattr(module, function)).parameters["version"].default or module.VERSIONS[function]


def on_tensor_cores(module) -> dict:
    """The versions of each function that need tensor cores: an exact one and one that rounds to TF32."""
    return getattr(module, "TENSOR_CORES", {})


def versions(name="all", tf32=False) -> list[Version]:
    """All versions, or those of a layer ("layernorm") or a function ("layernorm_forward"), or one ("gelu_forward_v1").

    tf32: only those that round to TF32. The library's products are included only on a GPU. Raises UserError for a name
    that does not exist.
    """
    found = []
    for layer in LAYERS:
        module = import_module(f"llmc.kernels.{layer}")
        for function, last in getattr(module, "VERSIONS", {}).items():  # cublas has no ladder
            on_cores = on_tensor_cores(module).get(function, ())
            numbers = [None] * (layer == "matmul" and cuda.device() == "gpu")
            if tf32:
                numbers += on_cores[1:]
            else:
                numbers = [*range(1, last + 1), *numbers, *(on_cores if tensor_cores.available(cuda.device()) else ())]
            found += [Version(layer, function, number, tf32) for number in numbers]
    wanted = [v for v in found if name in ("all", v.layer, v.function, v.name)]
    if not wanted:
        functions = ", ".join(dict.fromkeys(v.function for v in found))
        raise UserError(
            f"there is no kernel {name!r}; choose one of {functions}, or one of its versions, as in gelu_forward_v1."
        )
    return wanted
