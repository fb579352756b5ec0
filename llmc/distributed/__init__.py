"""Several processes that train one model together: who they are, how they meet, and what they tell one another.

ranks.py          what all of them can do: sums, parts, copies; a single process is the simplest case
tcp.py, frames.py    over sockets, with rank 0 in the middle · mpi.py  over MPI, where mpirun has started them
nccl.py           between GPUs, for arrays that lie there
start.py          from options and the environment to a rank · launch.py  `--ranks N`: processes of this machine
data_parallel.py  a model whose gradients are summed over all ranks, and ZeRO-1

Whoever trains uses this room; models and backends do not know that it exists.
"""

from llmc.distributed.ranks import RankLost, Ranks

__all__ = ["RankLost", "Ranks"]
