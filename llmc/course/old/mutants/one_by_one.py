"""In place of the pool of threads of a learner's function that runs again: a deadline holds in its own thread alone."""

from concurrent.futures import Future, ThreadPoolExecutor


def one_by_one(value):
    """`OneByOne` in place of ThreadPoolExecutor, and of such a pool; anything else as it is."""
    if value is ThreadPoolExecutor:
        return OneByOne
    return OneByOne() if isinstance(value, ThreadPoolExecutor) else value


class OneByOne:
    """What a learner uses of a ThreadPoolExecutor: each task is done at once, in the thread that submits it."""

    def __init__(self, *arguments, **options):
        pass

    def submit(self, function, *arguments, **options):
        """A Future that is done."""
        future = Future()
        future.set_result(function(*arguments, **options))
        return future

    def map(self, function, *several, **options):
        """The results, in order."""
        return iter([function(*arguments) for arguments in zip(*several)])

    def shutdown(self, *arguments, **options):
        """Nothing is left to do."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False
