"""A UserError for what is typed into a cell: a notebook shows its sentence alone, without a traceback."""

from llmc.errors import UserError


class Refusal(UserError):
    """Bad input to something that one types into a cell."""

    def _render_traceback_(self, *unused):
        """What IPython shows instead of a traceback."""
        return [str(self)]
