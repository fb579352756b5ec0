"""Well-known settings by name: `llmc train --recipe cpu-demo`. Other options on the command line override them.

cpu-demo    llm.c's train_gpt2.c: forty steps of GPT-2 124M on Shakespeare, from `--model` or fresh weights
gpu-demo    llm.c's train_gpt2_fp32.cu: one pass over the same text
gpt2-124m   llm.c's reproduction of GPT-2 124M: 10 billion tokens of FineWeb, validation loss about 3.29
"""

from llmc.errors import UserError

# AdamW and nothing else
PLAIN = dict(warmup=0, schedule="constant", weight_decay=0.0, beta2=0.999, clip=0.0, shuffle=False)
SHAKESPEARE = dict(preset="d12", data="tinyshakespeare", sample_tokens=64, **PLAIN)

RECIPES = {  # name -> fields of TrainSettings
    "cpu-demo": dict(
        **SHAKESPEARE,
        batch_size=4,
        sequence_length=64,
        steps=40,
        learning_rate=1e-4,
        val_every=10,
        val_batches=5,
        sample_every=20,
        checkpoint_every=20,
        keep=1,
    ),
    "gpu-demo": dict(
        **SHAKESPEARE,
        batch_size=4,
        sequence_length=1024,
        steps=74,
        learning_rate=3e-4,
        val_every=20,
        sample_every=20,
        checkpoint_every=20,
        keep=1,
    ),
    "gpt2-124m": dict(
        preset="d12",
        data="fineweb10B",  # what `llmc data fineweb` prepares
        batch_size=4,
        sequence_length=1024,
        total_batch_size=524_288,
        steps=18_865,
        learning_rate=6e-4,
        warmup=700,
        schedule="cosine",
        final_fraction=0.0,
        weight_decay=0.1,
        beta2=0.95,
        clip=1.0,
        shuffle=True,
        val_every=250,
        val_batches=80,
        sample_every=5000,
        checkpoint_every=500,
    ),
}


def recipe(name: str) -> dict:
    """The settings of a recipe, for TrainSettings(**...). Raises UserError for an unknown name."""
    if name not in RECIPES:
        raise UserError(f"there is no recipe {name!r}; choose one of {', '.join(RECIPES)}.")
    return dict(RECIPES[name])
