"""A UserError for what is typed into a cell: a notebook shows its sentence alone, without a traceback."""

import textwrap

from llmc.errors import UserError

WIDTH = 72  # characters; JupyterLab breaks lines that do not fit in the middle of a word


class Refusal(UserError):
    """Bad input to a function that is called in a cell."""

    def _render_traceback_(self, *unused):
        """What IPython shows instead of a traceback."""
        return textwrap.wrap(str(self), WIDTH)
