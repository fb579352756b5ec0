"""`llmc sample`: let a trained model write text, printing each token as it is chosen."""

from llmc.checkpoints import load_model, read_config
from llmc.precision import TRAINED
from llmc.sampling import check_options, sample_text
from llmc.training.find_models import MODEL_HELP, find_tokenizer, read_newest, run_settings, trained_window
from llmc.training.settings import TrainSettings


def add_arguments(parser):
    """Declare the arguments of `llmc sample` on an argparse parser."""
    parser.add_argument("model", nargs="?", help=f"{MODEL_HELP} (default: the newest run)")
    parser.add_argument("--prompt", default="", help="the text to continue (default: start a new document)")
    temperature = "below 1 the text is more predictable; 0 always takes the most probable token (default: 1.0)"
    parser.add_argument("--temperature", type=float, default=1.0, metavar="X", help=temperature)
    parser.add_argument("--top-k", type=int, metavar="K", help="draw only from the K most probable tokens")
    parser.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help="draw only from the fewest tokens whose probabilities add up to P",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1337,
        metavar="N",
        help="random seed; the same seed gives the same text (default: 1337)",
    )
    parser.add_argument("--max-tokens", type=int, default=256, metavar="N", help="stop after N tokens (default: 256)")
    parser.add_argument(
        "--window", type=int, metavar="N", help="how many tokens to look back at (default: as in training)"
    )
    tokenizer = "tokenizer file (default: the one next to the model, or GPT-2's)"
    parser.add_argument("--tokenizer", metavar="FILE", help=tokenizer)
    parser.add_argument("--no-cache", action="store_true", help="process the whole context again for every token")
    backend = "the code that computes the layers: numpy, cpu or cuda (default: %(default)s)"
    parser.add_argument("--backend", default=TrainSettings.backend, help=backend)
    numbers = "compute precision (default: %(default)s)"
    parser.add_argument("--precision", choices=TRAINED, default=TrainSettings.precision, help=numbers)


def run(args) -> int:
    """Print the prompt and its continuation. Always returns 0. Raises UserError for bad options or files."""
    check_options(args.max_tokens, args.temperature, args.top_k, args.top_p)
    model, encoding, window = read_newest(args.model, lambda path: _read(path, args))
    pieces = sample_text(
        model,
        encoding,
        prompt=args.prompt,
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        seed=args.seed,
        window=window if args.window is None else args.window,
        cache=not args.no_cache,
    )
    print(args.prompt, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    return 0


def _read(path, args):
    """(model, its tokenizer, how many tokens back it learned to look)."""
    settings, config = run_settings(path), read_config(path)
    encoding = find_tokenizer(config.V, args.tokenizer, [path.parent])
    return load_model(path, args.backend, args.precision), encoding, trained_window(settings, config)
