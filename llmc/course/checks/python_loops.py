"""Does a function loop in Python, turn by turn, or only in what is compiled?"""

import ast
import inspect
import textwrap
from types import FunctionType

TURNS = {"vectorize", "frompyfunc", "apply_along_axis", "fromiter", "map"}  # calls that are loops in Python, too
LOOPS = (ast.For, ast.While, ast.comprehension)


def in_python(function, above=()) -> bool:
    """Is there a loop in the function, or in one that it calls by name and that is not compiled?

    True where the source is unknown, and for None. above: the functions that called it, which are not looked at again.
    """
    if function is not None and not isinstance(function, FunctionType):  # Numba's, a ufunc: compiled
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return True
    if any(isinstance(node, LOOPS) or _takes_turns(node) for node in ast.walk(tree)):
        return True
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    helpers = [function.__globals__.get(name) for name in called]
    above = (*above, function)
    return any(
        in_python(helper, above) for helper in helpers if isinstance(helper, FunctionType) and helper not in above
    )


def _takes_turns(node) -> bool:
    """np.vectorize(…), map(…)"""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in TURNS
