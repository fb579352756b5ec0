"""Models and training states on disk, in llm.c's and Hugging Face's formats, so that each can read the others'."""

from llmc.checkpoints.debug_state import DebugState, read_debug_state
from llmc.checkpoints.folder import checkpoints, latest_checkpoint, load_checkpoint, load_model, save_checkpoint
from llmc.checkpoints.huggingface import read_huggingface, write_huggingface
from llmc.checkpoints.model_file import read_config, read_model, write_model
from llmc.checkpoints.optimizer_state import TrainState, read_optimizer_state, write_optimizer_state

__all__ = [
    "DebugState",
    "TrainState",
    "checkpoints",
    "latest_checkpoint",
    "load_checkpoint",
    "load_model",
    "read_config",
    "read_debug_state",
    "read_huggingface",
    "read_model",
    "read_optimizer_state",
    "save_checkpoint",
    "write_huggingface",
    "write_model",
    "write_optimizer_state",
]
