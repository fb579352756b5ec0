"""A panel that takes a number apart: type it, choose a format, flip single bits, go to the next number."""

import numpy as np

from llmc.course.lessons.number_formats.formats import FORMATS, decode, encode, meaning

COLORS = ("danger", "warning", "info")  # of the buttons: sign, exponent, mantissa


class Panel:
    """Widgets, in a `box`, around one bit pattern, `code`. Needs a running kernel, as all widgets do."""

    def __init__(self, number, name):
        import ipywidgets as widgets

        self.code, self._busy = 0, False  # busy: while the panel itself changes its widgets
        self.field = widgets.Text(f"{number:g}", description="number", continuous_update=False)
        self.choice = widgets.Dropdown(options=list(FORMATS), value=name, description="format")
        self.down, self.up = (widgets.Button(description=text) for text in ("previous number", "next number"))
        small = widgets.Layout(width="26px", padding="0", margin="0 1px 0 0")
        self.bits = [widgets.ToggleButton(description="0", layout=small) for _ in range(32)]
        self.text = widgets.HTML()
        for each in (self.field, self.choice):
            each.observe(lambda change: self.read(), "value")
        for bit in self.bits:
            bit.observe(lambda change: self.flipped(), "value")
        self.down.on_click(lambda button: self.step(-1))
        self.up.on_click(lambda button: self.step(1))
        rows = [widgets.HBox([self.field, self.choice, self.down, self.up]), widgets.HBox(self.bits), self.text]
        self.box = widgets.VBox(rows)
        self.read()

    fmt = property(lambda self: FORMATS[self.choice.value])

    def read(self):
        """Take the number that was typed."""
        try:
            self.show(int(encode(float(self.field.value), self.fmt)))
        except ValueError:
            self.text.value = "Type a number, such as 0.1, 1e-8 or inf."

    def step(self, by):
        """The neighbour: the pattern, read as a whole number, plus or minus 1; away from 0 is plus."""
        half = 1 << self.fmt.bits - 1
        sign, size = divmod(self.code, half)
        self.show(sign * half + min(max(size + (-by if sign else by), 0), half - 1))

    def flipped(self):
        """Read the buttons."""
        if not self._busy:
            self.show(int("".join(str(int(bit.value)) for bit in self.bits[: self.fmt.bits]), 2))

    def show(self, code):
        """Write a pattern to the buttons, and what it stands for below them."""
        self.code, fmt, self._busy = code, self.fmt, True
        for k, bit in enumerate(self.bits):
            bit.layout.display = "" if k < fmt.bits else "none"
            bit.value = k < fmt.bits and bool(code >> fmt.bits - 1 - k & 1)
            bit.description = str(int(bit.value))
            bit.button_style = COLORS[0 if k == 0 else 1 if k <= fmt.exponent else 2]
        self._busy, value = False, float(decode(code, fmt))
        lines = [f"<b>{meaning(code, fmt)}</b>", f"bits {code:0{-(-fmt.bits // 4)}X} (hexadecimal)"]
        if np.isfinite(value):
            step = float(decode((code & (1 << fmt.bits - 1) - 1) + 1, fmt)) - abs(value)
            lines.append(f"the next larger size is {step:.3g} away" if np.isfinite(step) else "the largest number")
        self.text.value = "<br>".join(lines)
