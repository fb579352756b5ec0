"""Every small mistake that fits into a piece of Python: a term left out, a sign, an axis, a name, a bound, a line.

    for words in mutants(tree):   # "without the term `through_mean`"
        compile(tree, …)          # the tree holds that mistake until the loop goes on, then it is whole again

The tree is changed in place, because a copy for every mistake would take longer than all the rest.
"""

import ast

from llmc.course.mutants import expressions, statements
from llmc.course.mutants.places import local_names, places


def mutants(tree):
    """Words for each mistake, the likeliest kinds first; the tree holds the mistake while the caller looks at it.

    Only bodies of functions are changed. The words go on from "our solution": "without …", "with …", "from 1 on …".
    """
    found = []  # (rank of its kind, words, place, what hangs there instead)
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        lines = local_names(function)
        for place in places(function):
            names = [name for name, line in lines.items() if line <= place.node.lineno]
            found += [(rank, words, place, new) for rank, words, new in expressions.changed(place, names)]
        found += statements.changed(function)
    for _, words, place, new in sorted(found, key=lambda mistake: mistake[0]):
        old = place.node
        place.hang(new)
        ast.fix_missing_locations(tree)
        try:
            yield words
        finally:
            place.hang(old)
