"""Inline PTX: from asm statements to calls of the C++ functions in ../../include/ptx/.

From the text to the C++ that takes its place:

    statements.py    asm("template" : outputs : inputs), found in a text
    instructions.py  what its template says: instructions, registers, scopes
    forms.py         the table of instructions that the emulator knows
    matching.py      from an instruction's name to its rows in the table
    registers.py     types, registers, and the C++ that stands for them
    operands.py      the operands of an instruction, checked against its form
    calls.py         the C++ statement for an instruction, or the sentence that it is not known
    translation.py   the C++ that takes the place of an asm statement, line by line

To add an instruction: a row in forms.py, a function in include/ptx/, a row in llmc/tests/emulator/test_ptx_*.py.
"""
