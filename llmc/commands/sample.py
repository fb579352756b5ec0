"""`llmc sample`: a trained model writes, token by token, as it thinks of them."""

from llmc.checkpoints import read_config, read_model
from llmc.sampling import check_options, sample_text
from llmc.training.settings import TrainSettings
from llmc.training.trained import find_encoding, find_trained


def add_arguments(parser):
    """Declare the arguments of `llmc sample` on an argparse parser."""
    parser.add_argument(
        "model", nargs="?", help="a run, by folder or name in runs/, or a model file (default: newest run)"
    )
    parser.add_argument("--prompt", default="", help="text to continue (default: begin a document)")
    parser.add_argument("--temperature", type=float, default=1.0, help="0: the most probable token (default: 1.0)")
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K most probable tokens only")
    parser.add_argument("--top-p", type=float, metavar="P", help="draw from the fewest tokens with a share of P only")
    parser.add_argument("--seed", type=int, default=1337, help="the same seed, the same text (default: 1337)")
    parser.add_argument("--max-tokens", type=int, default=256, help="end after so many tokens (default: 256)")
    parser.add_argument("--window", type=int, help="tokens to look back on (default: as many as in training)")
    parser.add_argument("--tokenizer", help="tokenizer file (default: the one beside the model, or GPT-2's)")
    parser.add_argument("--no-cache", action="store_true", help="read the whole context again for every token")
    parser.add_argument("--backend", default=TrainSettings.backend, help="who computes (default: %(default)s)")


def run(args) -> int:
    """Write the prompt and what follows; always 0. Raises UserError for bad options or files."""
    check_options(args.max_tokens, args.temperature, args.top_k, args.top_p)
    trained = find_trained(args.model)
    encoding = find_encoding(read_config(trained.path).V, args.tokenizer, [trained.folder])
    model = read_model(trained.path, args.backend)
    window = trained.window(model.config) if args.window is None else args.window
    more = dict(top_p=args.top_p, window=window, cache=not args.no_cache)
    options = (args.prompt, args.max_tokens, args.temperature, args.top_k, args.seed)
    pieces = sample_text(model, encoding, *options, **more)
    print(args.prompt, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    return 0
