"""What a process may use, settled before NumPy is imported: addresses, and the cores that ranks share."""

import os
from contextlib import suppress

from llmc.errors import UserError

THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
ON_THIS_MACHINE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")  # how many processes mpirun has started here
ADDRESSES = 500 << 20, 100 << 20  # bytes for libraries, and for each thread of BLAS


def settle():
    """Let ranks that mpirun has started share the cores as those of `--ranks` do, so that sums have the same parts.

    Raises UserError where `ulimit -v` leaves so little that OpenBLAS, when it is imported, asks for ever.
    """
    with suppress(ImportError):  # Windows has no such limit
        import resource

        threads = os.environ.get("OPENBLAS_NUM_THREADS", "")
        threads = int(threads) if threads.isdecimal() else os.cpu_count() or 1
        limit, needed = resource.getrlimit(resource.RLIMIT_AS)[0], ADDRESSES[0] + ADDRESSES[1] * threads
        if limit != resource.RLIM_INFINITY and limit < needed:
            raise UserError(
                f"this shell allows a process {limit >> 10:,} KiB of addresses, too few for NumPy's and SciPy's"
                f" libraries: `ulimit -v` must be at least {needed >> 10} for {threads} threads (OPENBLAS_NUM_THREADS)."
            )
    for name in ON_THIS_MACHINE:
        if os.environ.get(name, "").isdecimal():
            os.environ.update({**share_of_cores(int(os.environ[name])), **os.environ})


def share_of_cores(ranks) -> dict:
    """The variables that tell Numba and BLAS how many threads are one rank's."""
    return dict.fromkeys(THREADS, str(max(1, (os.cpu_count() or 1) // max(1, ranks))))
