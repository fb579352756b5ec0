"""GPT-2 in Hugging Face's format: a folder with config.json, model.safetensors and the tokenizer's files.

weights.py reads and writes the model, tokenizer_files.py writes the tokenizer, source_files.py finds the files in a
folder or on the hub, and tensor_layout.py and safetensors_file.py describe the format.
"""

from llmc.checkpoints.huggingface.tokenizer_files import write_huggingface_tokenizer
from llmc.checkpoints.huggingface.weights import read_huggingface, write_huggingface

__all__ = ["read_huggingface", "write_huggingface", "write_huggingface_tokenizer"]
