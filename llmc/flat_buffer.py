"""One flat buffer with named views into it: planned from shapes, allocated once, printable as a table.

The idea is llm.c's malloc_and_point: one allocation, many pointers.
"""

from math import prod


class FlatBuffer:
    """Named views into one flat array of a backend.

    `flat` is (capacity,); it is replaced only when a plan needs more than there is, so a smaller batch reuses it.
    """

    def __init__(self, backend, dtype, shapes=None):
        self.backend, self.dtype = backend, dtype
        self.shapes = shapes or {}
        self.flat = None
        self.views = {}

    def allocate(self, shapes=None):
        """Views {name: array} for shapes {name: tuple}, those of the last call when None. Allocates only to grow."""
        shapes = self.shapes if shapes is None else shapes
        if self.views and shapes == self.shapes:
            return self.views
        needed = sum(prod(shape) for shape in shapes.values())
        if self.flat is None or self.flat.size < needed:
            self.views, self.flat = {}, None  # free the old array before asking for the new one
            self.flat = self.backend.zeros(needed, self.dtype)
        self.shapes, self.views, start = shapes, {}, 0
        for name, shape in shapes.items():
            self.views[name] = self.flat[start : start + prod(shape)].reshape(shape)
            start += prod(shape)
        return self.views

    def zero(self):
        """Set every element to zero; nothing to do before the first allocation, which is zeros already."""
        if self.flat is not None:
            self.backend.zero(self.flat)


def plan_table(groups, itemsize: int) -> str:
    """Text table of groups {title: {name: shape}}: shape and MiB of every tensor, subtotals, the total.

    A group with the shapes of one before it (gradients, moments) is a single line.
    """
    lines, total, seen = [], 0, []
    for title, shapes in groups.items():
        size = sum(prod(shape) for shape in shapes.values())
        total += size
        lines.append(f"{title:<44} {size * itemsize / 2**20:12,.2f} MiB")
        if shapes not in seen:
            seen.append(shapes)
            for name, shape in shapes.items():
                lines.append(f"  {name:<12} {str(shape):<29} {prod(shape) * itemsize / 2**20:12,.2f}")
    return "\n".join([*lines, f"{'total':<44} {total * itemsize / 2**20:12,.2f} MiB"])
