"""Well-known settings by name, as in `llmc train --recipe cpu-demo`. Other options on the command line override them.

cpu-demo    llm.c's train_gpt2.c: forty steps of GPT-2 124M on Shakespeare, from `--model` or fresh weights
gpu-demo    llm.c's train_gpt2_fp32.cu: one pass over the same text
gpt2-…      llm.c's reproductions of GPT-2 on FineWeb; 124m takes 10 billion tokens, to a validation loss of about 3.29
gpt3-125m   the same for the smallest GPT-3, with 2048 tokens of context

The reproductions follow llm.c's scripts/run_gpt2_124M.sh and so on. These are written for eight GPUs with 80 GB each,
so their batches may be too large for other machines: with `--batch-size 4` a step learns from just as many tokens, in
more pieces. Only some checkpoints are kept. A recipe does not choose a backend, so add `--backend cuda`; HellaSwag is
downloaded.
"""

from llmc.data.permuted import LLM_C
from llmc.errors import UserError

# AdamW and nothing else
PLAIN = dict(warmup=0, schedule="constant", weight_decay=0.0, beta2=0.999, clip=0.0)
SHAKESPEARE = dict(
    preset="d12",
    data="tinyshakespeare",
    batch_size=4,
    order=LLM_C,
    sample_every=20,
    sample_tokens=64,
    checkpoint_every=20,
    keep=1,
    **PLAIN,
)
FINEWEB = dict(  # what all of scripts/run_gpt*.sh have in common
    data="fineweb100B",  # `llmc data fineweb --sample 100B` prepares it
    sequence_length=1024,
    total_batch_size=2**19,
    warmup=700,
    schedule="cosine",
    final_fraction=0.0,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    eps=1e-8,
    clip=1.0,
    order=LLM_C,
    precision="bf16",
    zero=1,
    val_every=250,
    val_batches=20,
    hellaswag_every=250,
    sample_every=0,  # at the end; llm.c's numbers are larger than these runs are long
    sample_tokens=144,
    keep=5,
)

RECIPES = {  # name -> fields of TrainSettings
    "cpu-demo": SHAKESPEARE | dict(sequence_length=64, steps=40, learning_rate=1e-4, val_every=10, val_batches=5),
    "gpu-demo": SHAKESPEARE | dict(sequence_length=1024, steps=74, learning_rate=3e-4, val_every=20),
    "gpt2-124m": FINEWEB
    | dict(preset="d12", data="fineweb10B", batch_size=64, steps=18_865, learning_rate=6e-4, checkpoint_every=5000),
    "gpt2-350m": FINEWEB | dict(preset="d24", batch_size=64, steps=60_000, learning_rate=3e-4, checkpoint_every=2000),
    "gpt2-774m": FINEWEB
    | dict(preset="d36", batch_size=32, steps=286_102, learning_rate=2.5e-4, checkpoint_every=4000),
    "gpt2-1558m": FINEWEB
    | dict(
        preset="d48",
        data="edu_fineweb100B",
        batch_size=16,
        total_batch_size=2**20,
        steps=32_000,
        learning_rate=6e-4,
        final_fraction=0.1,
        sample_tokens=384,
        checkpoint_every=2000,
    ),
    "gpt3-125m": FINEWEB
    | dict(
        preset="gpt3-125m",
        batch_size=32,
        sequence_length=2048,
        steps=572_204,
        learning_rate=6e-4,
        final_fraction=0.1,
        skip_loss_z=7.0,
        skip_norm_z=7.0,
        sample_every=20_000,
        checkpoint_every=10_000,
    ),
}


def recipe(name: str) -> dict:
    """The settings of a recipe, for TrainSettings(**...). Raises UserError for an unknown name."""
    if name not in RECIPES:
        raise UserError(f"there is no recipe {name!r}; choose one of {', '.join(RECIPES)}.")
    return dict(RECIPES[name])
