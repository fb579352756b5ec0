"""`llmc verify`: does this backend compute what PyTorch computed? Like llm.c's test_gpt2.c and test_gpt2.cu."""

from llmc.backends import ATTENTION, MATMUL, WHOSE_ATTENTION, WHOSE_MATMUL
from llmc.checkpoints import load_model, model_file, read_debug_state
from llmc.parity.compare import BFLOAT16_WEIGHTS, HEAD, RECIPES, TOLERANCES, compare, read_losses
from llmc.precision import TRAINED
from llmc.training.loss_scale import LossScale


def add_arguments(parser):
    """Declare the arguments of `llmc verify` on an argparse parser."""
    parser.add_argument("model", help="a model file in llm.c's format (version 3, float32, or version 5, bfloat16)")
    parser.add_argument("state", help="llm.c's debug state for this model")
    parser.add_argument("--backend", default="numpy", help="which backend to verify (default: numpy)")
    numbers = "compute precision (default: %(default)s)"
    parser.add_argument("--precision", choices=TRAINED, default="fp32", help=numbers)
    parser.add_argument("--attention", choices=ATTENTION, default="own", help=f"{WHOSE_ATTENTION} (default: own)")
    parser.add_argument("--matmul", choices=MATMUL, default="fastest", help=f"{WHOSE_MATMUL} (default: fastest)")
    parser.add_argument(
        "--recipe", choices=RECIPES, default="A", help="which optimizer settings to use for the ten steps (default: A)"
    )
    parser.add_argument(
        "--losses", help="JSON file with the ten expected losses: a list, or lists named after the recipes"
    )


def run(args) -> int:
    """Verify and print. Returns 0 if everything agrees, else 1. Raises UserError for unusable files."""
    expected = read_losses(args.losses, args.recipe) if args.losses else {}
    rounded = model_file.read_version(args.model) == model_file.BFLOAT16
    tolerance = TOLERANCES[args.precision]
    if rounded and args.precision not in ("bf16", "fp8"):
        tolerance = BFLOAT16_WEIGHTS
    model = load_model(args.model, args.backend, args.precision)
    model.backend.choose(args.matmul, args.attention)
    if model.precision.overflows:
        model.loss_scale = LossScale().value
    state = read_debug_state(args.state, model.config)
    if rounded:
        print("bfloat16 weights: the state was made with float32 weights, so the tolerances allow for the rounding")
    print(f"{'':7}{HEAD}")
    okay = True
    for row in compare(model, state, expected, args.recipe, tolerance):
        print(f"{'ok' if row.okay else 'NOT OK':7}{row}", flush=True)
        okay &= row.okay
    print(f"overall okay: {int(okay)}")
    return 0 if okay else 1
