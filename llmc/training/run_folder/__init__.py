"""`runs/NAME/`, the folder of a run: claiming it, writing it, and finding it and its model again.

main.log        written line by line, as the run goes
settings.json, tokenizer.bin   with the first checkpoint
model_%08d.bin, state_%08d_00000.bin, DONE_%08d   checkpoints, see llmc/checkpoints/folder.py
model.bin, sample.txt, loss.png   at the end, even of an interrupted run; a resumed one keeps them until it ends
"""

from llmc.training.run_folder.find_models import find_model, find_run, runs_home

__all__ = ["find_model", "find_run", "runs_home"]
