"""What a lesson says about a measurement: true of a quiet machine, and no error if another program was computing."""

import os

AGAIN = "Something else may have been computing: run this cell again when the machine is quiet."


def finding(holds, words):
    """Print that this measurement does not show `words`, unless it `holds`.

    Where a lesson's outputs are stored (`make notebooks` sets LLMC_FINDINGS=assert), that is an AssertionError: the
    text around them must be true.
    """
    if not holds:
        told = f"This time, the measurement does not show that {words}."
        if os.environ.get("LLMC_FINDINGS") == "assert":
            raise AssertionError(told)
        print(told, AGAIN, sep="\n")
