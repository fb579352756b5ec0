"""What lessons and checks measure code with: its memory (memory.py), and what a measurement shows (finding.py)."""

from llmc.course.measure.finding import finding
from llmc.course.measure.memory import peak_bytes, resident_peak

__all__ = ["finding", "peak_bytes", "resident_peak"]
