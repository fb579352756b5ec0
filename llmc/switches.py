"""Environment variables that switch something on or off: LLMC_CHECK, LLMC_GRAPHS."""

import os

from llmc.errors import UserError


def switch(name: str) -> bool | None:
    """True for 1, False for 0, None if the variable is unset or empty. Raises UserError for any other value."""
    value = os.environ.get(name, "")
    if value not in ("", "0", "1"):
        raise UserError(f"{name} is {value!r}; set it to 1 or 0, or unset it.")
    return {"1": True, "0": False}.get(value)
