"""`llmc eval`: how well does a model predict tokens? Loss, perplexity, bits per byte when their text is known."""

import json
from math import exp, isfinite, log
from pathlib import Path
from time import perf_counter

from llmc.checkpoints import read_config, read_model
from llmc.data import DataLoader, find_corpus
from llmc.data.shards import Shards
from llmc.data.tokenizer import token_lengths
from llmc.errors import UserError
from llmc.evaluation import BASELINE_TOKENS, baselines, first_batches
from llmc.training.settings import TrainSettings
from llmc.training.trained import find_encoding, find_trained

AT_ONCE = 1024  # B·T when nothing else is known: enough to keep BLAS busy, little enough for any memory


def add_arguments(parser):
    """Declare the arguments of `llmc eval` on an argparse parser."""
    parser.add_argument(
        "model", nargs="?", help="a run, by folder or name in runs/, or a model file (default: newest run)"
    )
    parser.add_argument("--tokens", help="token file, or a pattern of several (default: the run's validation data)")
    parser.add_argument("--tokenizer", help="tokenizer file (default: beside the tokens or the model, or GPT-2's)")
    parser.add_argument("--train-tokens", metavar="TOKENS", help="count these, for unigram and bigram baselines")
    parser.add_argument("--batch-size", type=int, metavar="N", help=f"B (default: the run's, or {AT_ONCE} tokens)")
    parser.add_argument("--sequence-length", type=int, metavar="N", help=f"T (default: the run's, or up to {AT_ONCE})")
    parser.add_argument("--batches", type=int, metavar="N", help="measure on the first N batches (default: on all)")
    parser.add_argument("--backend", default=TrainSettings.backend, help="who computes (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(args) -> int:
    """Measure and print; always 0. Raises UserError for files that cannot be used, or do not belong together."""
    trained = find_trained(args.model)
    config = read_config(trained.path)
    loader = _loader(args, trained, config)
    folders = [loader.shards.paths[0].parent, trained.folder]
    encoding = find_encoding(config.V, args.tokenizer, folders, required=False)
    counted = _baselines(args, loader, config.V)
    model, start = read_model(trained.path, args.backend), perf_counter()
    found = measure(model, loader, None if encoding is None else token_lengths(encoding), args.batches)
    about = {"model": str(trained.path), "data": str(loader.path), "B": loader.B, "T": loader.T}
    found |= {"baselines": counted, "seconds": perf_counter() - start}
    print(json.dumps(about | found) if args.json else report(about | found))
    return 0


def measure(model, loader, lengths=None, batches=None) -> dict:
    """Loss (nats per token), perplexity, tokens; with lengths (V,), the bytes of each token, bits_per_byte and bytes.

    Over the loader's first `batches` batches, each of its batches once when None. bits_per_byte and bytes are None
    when the text is not known. Raises UserError for a model whose loss is no number.
    """
    from tqdm import tqdm

    total = loader.num_batches if batches is None else min(batches, loader.num_batches)
    nats, tokens, size = 0.0, 0, 0
    for x, y in tqdm(first_batches(loader, batches), total=total, unit="batch", leave=False, disable=None):
        nats += model.forward(x, y) * y.size
        tokens += y.size
        size += 0 if lengths is None else int(lengths[y].sum())  # (B, T)
    loss = nats / tokens
    if not isfinite(loss):
        raise UserError("this model's loss is not a number: its training diverged; train with a lower learning rate.")
    bits = nats / log(2) / size if size else None
    return dict(loss=loss, perplexity=exp(min(loss, 700.0)), bits_per_byte=bits, tokens=tokens, bytes=size or None)


def report(found) -> str:
    """What `run` found, as lines to read."""
    if found["bits_per_byte"] is None:
        bits = "bits per byte    unknown: it takes the tokenizer of these tokens, given with --tokenizer"
    else:
        bits = f"bits per byte {found['bits_per_byte']:10.4f}"
    return "\n".join(
        [
            f"loss          {found['loss']:10.4f} nats per token",
            *(f"  {name:<11} {value:10.4f}" for name, value in found["baselines"].items()),
            f"perplexity    {found['perplexity']:10.2f}",
            bits,
            f"on {found['tokens']:,} tokens of {found['data']}, B={found['B']} T={found['T']},"
            f" in {found['seconds']:.1f} s",
        ]
    )


def _loader(args, trained, config):
    """Batches of --tokens, else of the validation data of the model's run; in the run's shape unless told otherwise."""
    s = trained.settings
    if args.tokens is None and s is None:
        raise UserError(f"{trained.path} is of no run that is known; say on what to measure it with --tokens.")
    tokens = find_corpus(s.data).val if args.tokens is None else Path(args.tokens).expanduser()
    T = min(trained.window(config), AT_ONCE) if args.sequence_length is None else args.sequence_length
    config.check_sequence_length(T)
    B = args.batch_size
    if B is None:
        usual = s.batch_size if s and T == s.sequence_length else AT_ONCE // T
        B = max(1, min(usual, (min(Shards(tokens).sizes) - 1) // T))  # a short file is no reason to refuse
    return DataLoader(tokens, B, T, config.V)


def _baselines(args, loader, V) -> dict:
    """Losses, on the tokens to be measured, of models that only count --train-tokens; without them, of a guess."""
    if args.train_tokens is None:
        return {"uniform": log(V)}
    batches = loader.num_batches if args.batches is None else args.batches
    train = DataLoader(args.train_tokens, 1, 1, V)
    return baselines(train.head(BASELINE_TOKENS), loader.head(batches * loader.B * loader.T + 1), V)
