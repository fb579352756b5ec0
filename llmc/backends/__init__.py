"""The backends: whatever computes the layers of a model. Their contract is in `contract.py`."""

from importlib import import_module

from llmc.backends import numba_variables
from llmc.backends.contract import ATTENTION, MATMUL, WHOSE_ATTENTION, WHOSE_MATMUL, Backend
from llmc.errors import UserError

__all__ = ["ATTENTION", "BACKENDS", "MATMUL", "WHOSE_ATTENTION", "WHOSE_MATMUL", "Backend", "get_backend"]

BACKENDS = {"numpy": "llmc.backends.reference", "cpu": "llmc.backends.cpu", "cuda": "llmc.backends.gpu"}


def get_backend(backend, precision=None) -> Backend:
    """The backend with this name, prepared; or one made of a module or an object that has the layer functions.

    precision: a Precision; the backend returned takes its arrays and multiplies in it. Raises UserError for an
    unknown name, and for a backend that does not compute in this precision.
    """
    if isinstance(backend, str):
        found = _named(backend)
        found.prepare()
    else:
        found = backend if isinstance(backend, Backend) else Backend(backend)
    return found if precision is None else found.in_precision(precision)


def _named(name) -> Backend:
    if name not in BACKENDS:
        raise UserError(f"there is no backend {name!r}; choose one of {', '.join(BACKENDS)}.")
    if name == "cpu":
        numba_variables.check()
    module = import_module(BACKENDS[name])
    return module.Cuda() if name == "cuda" else Backend(module, name=name)
