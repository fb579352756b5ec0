"""Models and states on disk, in llm.c's binary formats: what one program writes, the other reads."""

from llmc.checkpoints.debug_state import DebugState, read_debug_state
from llmc.checkpoints.model_file import read_config, read_model, write_model

__all__ = ["DebugState", "read_config", "read_debug_state", "read_model", "write_model"]
