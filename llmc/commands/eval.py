"""`llmc eval`: measure how well a model predicts tokens, as loss, perplexity and, if possible, bits per byte.

With --hellaswag: how often it picks the real ending of a text out of four.
"""

import json
from math import exp, isfinite, log
from time import perf_counter

from llmc.checkpoints import load_model, read_config
from llmc.data import DataLoader, find_corpus
from llmc.data.shards import Shards
from llmc.data.tokenizer import token_lengths
from llmc.errors import UserError
from llmc.evaluation import BASELINE_TOKENS, baselines, first_batches
from llmc.files.reading import user_path
from llmc.precision import TRAINED
from llmc.training.find_models import MODEL_HELP, find_tokenizer, read_newest, run_settings, trained_window
from llmc.training.settings import TrainSettings

AT_ONCE = 1024  # B·T by default: enough to keep BLAS busy, little enough for any memory
ON_TOKENS = ("tokens", "train_tokens", "batch_size", "batches")  # options that --hellaswag has no use for


def add_arguments(parser):
    """Declare the arguments of `llmc eval` on an argparse parser."""
    parser.add_argument("model", nargs="?", help=f"{MODEL_HELP} (default: the newest run)")
    tokens = "a token file, or a pattern for several (default: the validation data of the run)"
    parser.add_argument("--tokens", metavar="FILE", help=tokens)
    tokenizer = "tokenizer file (default: the one next to the tokens or the model, or GPT-2's)"
    parser.add_argument("--tokenizer", metavar="FILE", help=tokenizer)
    train_tokens = "training tokens on which to count the unigram and bigram baselines"
    parser.add_argument("--train-tokens", metavar="FILE", help=train_tokens)
    batch_size = f"sequences per batch, B (default: the run's, or enough for batches of {AT_ONCE} tokens)"
    parser.add_argument("--batch-size", type=int, metavar="N", help=batch_size)
    sequence_length = f"tokens per sequence, T (default: the run's, or at most {AT_ONCE})"
    parser.add_argument("--sequence-length", type=int, metavar="N", help=sequence_length)
    parser.add_argument("--batches", type=int, metavar="N", help="measure on the first N batches only (default: all)")
    hellaswag = (
        "measure on HellaSwag instead: on its validation set, downloaded once, or on a FILE such as llm.c's .bin"
    )
    parser.add_argument("--hellaswag", nargs="?", const="", metavar="FILE", help=hellaswag)
    parser.add_argument(
        "--limit", type=int, metavar="N", help="use only the first N examples of HellaSwag (default: all)"
    )
    backend = "the code that computes the layers: numpy, cpu or cuda (default: %(default)s)"
    parser.add_argument("--backend", default=TrainSettings.backend, help=backend)
    numbers = "compute precision (default: %(default)s)"
    parser.add_argument("--precision", choices=TRAINED, default=TrainSettings.precision, help=numbers)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(args) -> int:
    """Measure and print. Always returns 0. Raises UserError for files that are unusable or do not belong together."""
    if args.batches is not None and args.batches < 1:
        raise UserError(f"--batches must be at least 1, not {args.batches}; leave it out to use all batches.")
    if args.hellaswag is not None:
        return _run_hellaswag(args)
    if args.limit is not None:
        raise UserError("--limit is for --hellaswag; to measure on fewer tokens, use --batches.")
    found = read_newest(args.model, lambda path: _measured(args, path))
    print(json.dumps(found) if args.json else report(found))
    return 0


def _measured(args, path) -> dict:
    """Measure the model in a file, for `report`."""
    config = read_config(path)
    loader = _loader(args, path, config)
    folders = [loader.shards.paths[0].parent, path.parent]
    encoding = find_tokenizer(config.V, args.tokenizer, folders, required=False)
    counted = _baselines(args, loader, config.V)
    model, start = load_model(path, args.backend, args.precision), perf_counter()
    found = measure(model, loader, None if encoding is None else token_lengths(encoding), args.batches)
    about = {"model": str(path), "data": str(loader.path), "B": loader.B, "T": loader.T}
    return about | found | {"baselines": counted, "seconds": perf_counter() - start}


def measure(model, loader, lengths=None, batches=None) -> dict:
    """{"loss" (nats per token), "perplexity", "tokens", "bytes", "bits_per_byte"} over the loader's batches.

    lengths: (V,) bytes of each token; without it, bytes and bits_per_byte are None · batches: how many; None for one
    pass over all of them. Raises UserError when the loss is not a finite number.
    """
    from tqdm import tqdm

    total = loader.num_batches if batches is None else min(batches, loader.num_batches)
    nats, tokens, size = 0.0, 0, 0
    for x, y in tqdm(first_batches(loader, batches), total=total, unit="batch", leave=False, disable=None):
        nats += model.loss(x, y) * y.size
        tokens += y.size
        size += 0 if lengths is None else int(lengths[y].sum())  # (B, T)
    loss = nats / tokens
    if not isfinite(loss):
        raise UserError(
            "this model's loss is not a number, so its training diverged; train it again with a lower learning rate."
        )
    bits = nats / log(2) / size if size else None
    return dict(loss=loss, perplexity=exp(min(loss, 700.0)), bits_per_byte=bits, tokens=tokens, bytes=size or None)


def report(found) -> str:
    """Format the results of `run` as lines of text."""
    if found["bits_per_byte"] is None:
        bits = "bits per byte    unknown; give these tokens' tokenizer with --tokenizer"
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


def _run_hellaswag(args) -> int:
    """Measure on HellaSwag and print. Always returns 0."""
    from llmc.hellaswag import PUBLISHED, report

    for name in ON_TOKENS:
        if getattr(args, name) is not None:
            raise UserError(f"--hellaswag uses its own texts; leave out --{name.replace('_', '-')}.")
    if args.limit is not None and args.limit < 1:
        raise UserError(f"--limit must be at least 1, not {args.limit}; leave it out to use all examples.")
    if args.model is None and args.hellaswag and user_path(args.hellaswag).suffix not in (".jsonl", ".bin"):
        raise UserError(
            f"{args.hellaswag} is not a file of examples; if it is the model, put it first: MODEL --hellaswag."
        )
    start = perf_counter()
    path, scores = read_newest(args.model, lambda path: (path, _scores(args, path)))
    seconds = perf_counter() - start
    if args.json:
        about = {"model": str(path), "examples": len(scores.labels), "cut": scores.cut, "seconds": seconds}
        numbers = {name: getattr(scores, name) for name in ("accuracy_norm", "standard_error", "accuracy")}
        print(json.dumps(about | numbers | {"published": PUBLISHED}))
    else:
        print(f"{report(scores)}\nscored {path} in {seconds:.1f} s")
    return 0


def _scores(args, path):
    """The hellaswag.Scores of the model in a file."""
    from tqdm import tqdm

    from llmc.hellaswag import load_examples, score_examples

    config, s = read_config(path), run_settings(path)
    T = trained_window(s, config) if args.sequence_length is None else args.sequence_length
    config.check_sequence_length(T)
    encoding = find_tokenizer(config.V, args.tokenizer, [path.parent], required=False)
    say = None if args.json else print
    examples = load_examples(args.hellaswag or None, encoding, config.V, args.limit, say)
    model = load_model(path, args.backend, args.precision)
    with tqdm(total=4 * len(examples), unit=" endings", leave=False, disable=None) as bar:
        return score_examples(model, examples, T, progress=bar.update)


def _loader(args, path, config):
    """Batches from --tokens, or else from the validation data of the model's run; by default in that run's shape."""
    s = run_settings(path)
    if args.tokens is None and s is None:
        raise UserError(f"{path} is not in a run folder; use --tokens to say which tokens to measure it on.")
    tokens = find_corpus(s.data).val if args.tokens is None else user_path(args.tokens)
    T = min(trained_window(s, config), AT_ONCE) if args.sequence_length is None else args.sequence_length
    config.check_sequence_length(T)
    B = args.batch_size
    if B is None:
        usual = s.batch_size if s and T == s.sequence_length else AT_ONCE // T
        B = max(1, min(usual, (min(Shards(tokens).sizes) - 1) // T))  # fewer when the file is short
    return DataLoader(tokens, B, T, config.V)


def _baselines(args, loader, V) -> dict:
    """Losses on the measured tokens of models that only count --train-tokens or, without those, of a uniform guess."""
    if args.train_tokens is None:
        return {"uniform": log(V)}
    batches = loader.num_batches if args.batches is None else args.batches
    train = DataLoader(args.train_tokens, 1, 1, V)
    return baselines(train.head(BASELINE_TOKENS), loader.head(batches * loader.B * loader.T + 1), V)
