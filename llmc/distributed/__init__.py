"""Several processes that train one model together: who they are, how they connect, and what they exchange.

ranks.py          what all ranks can do: sums, parts, copies; a single process is the simplest case
tcp.py, frames.py    over sockets, with rank 0 in the middle · mpi.py  over MPI, when mpirun has started them
nccl.py           between GPUs, for arrays in their memory
start.py          from options and the environment to a rank · launch.py  `--ranks N`: processes on this machine
data_parallel.py  a model whose gradients are summed over all ranks, and ZeRO-1

Only training code uses this package; models and backends do not know that it exists.
"""

from llmc.distributed.ranks import RankLost, Ranks

__all__ = ["RankLost", "Ranks"]
