"""What lessons and checks measure code with: the memory that it takes (memory.py)."""

from llmc.course.measure.memory import peak_bytes, resident_peak

__all__ = ["peak_bytes", "resident_peak"]
