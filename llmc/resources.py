"""What a process may use, settled before NumPy is imported: address space, and the cores that ranks share."""

import os
from contextlib import suppress

from llmc.errors import UserError

THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
ON_THIS_MACHINE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")  # how many processes mpirun has started here
ADDRESSES = 500 << 20, 100 << 20  # bytes for libraries, and for each thread of BLAS


def settle():
    """Let ranks started by mpirun share the cores as with `--ranks`, so that sums are split in the same way.

    Raises UserError if `ulimit -v` leaves so little memory that importing OpenBLAS would hang.
    """
    with suppress(ImportError):  # Windows has no such limit
        import resource

        threads = os.environ.get("OPENBLAS_NUM_THREADS", "")
        threads = int(threads) if threads.isdecimal() else os.cpu_count() or 1
        limit, needed = resource.getrlimit(resource.RLIMIT_AS)[0], ADDRESSES[0] + ADDRESSES[1] * threads
        if limit != resource.RLIM_INFINITY and limit < needed:
            raise UserError(
                f"`ulimit -v` allows only {limit >> 10:,} KiB of address space, too little for NumPy's and SciPy's"
                f" libraries; set it to at least {needed >> 10} for {threads} threads (OPENBLAS_NUM_THREADS)."
            )
    for name in ON_THIS_MACHINE:
        if os.environ.get(name, "").isdecimal():
            os.environ.update({**share_of_cores(int(os.environ[name])), **os.environ})


def share_of_cores(ranks) -> dict:
    """The environment variables that tell Numba and BLAS how many threads each rank has."""
    return dict.fromkeys(THREADS, str(max(1, (os.cpu_count() or 1) // max(1, ranks))))
