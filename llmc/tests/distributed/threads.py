"""Several ranks as threads of this process, connected over TCP: a test needs no time to start them."""

import threading

from llmc.distributed import tcp
from llmc.errors import UserError

HERE = "127.0.0.1"


def together(world, work, token=b"", say=print):
    """[work(ranks) of each rank]: a result, or the UserError that it raised; any other error is raised here."""
    server, results = tcp.listen(HERE), [None] * world
    port = server.getsockname()[1]

    def one(rank):
        try:
            if rank:
                ranks = tcp.join(HERE, port, rank, world, token, patience=10)
            else:
                ranks = tcp.serve(server, world, token, say, patience=10)
            try:
                results[rank] = work(ranks)
            except Exception as error:
                ranks.close(str(error))
                raise
            ranks.close()
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), results
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, UserError):
            raise result
    return results
