"""`llmc init`: make a model file to start from, with fresh weights or those of a Hugging Face GPT-2.

Fresh weights are those that `llmc train` and llm.c's `-e d12` start from; see llmc/initialization.py.
"""

from llmc.checkpoints.huggingface import read_huggingface
from llmc.checkpoints.model_file import check_precision, write_model
from llmc.config import preset
from llmc.errors import UserError
from llmc.files.reading import user_path
from llmc.initialization import check_seed
from llmc.model import GPT2
from llmc.terminal import llmc_command


def add_arguments(parser):
    """Declare the arguments of `llmc init` on an argparse parser."""
    parser.add_argument(
        "--preset", help="make fresh weights of this size: tiny, d6, d12 (GPT-2), … (see llmc/config.py)"
    )
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="seed of the fresh weights (default: 42)")
    source = "a folder with config.json and model.safetensors, or a name on the hub, such as openai-community/gpt2"
    parser.add_argument("--from", dest="source", metavar="MODEL", help=source)
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the model file to write, in llm.c's format")
    parser.add_argument("--precision", default="float32", help="float32 or bfloat16 (default: float32)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(args) -> int:
    """Write the model file and print its sizes. Always returns 0. Raises UserError before it computes or fetches."""
    if (args.preset is None) == (args.source is None):
        help_ = llmc_command("init", "--help")
        raise UserError(f"give either --preset (fresh weights) or --from (a Hugging Face model); see `{help_}`.")
    check_precision(args.precision)
    check_seed(args.seed)
    path = user_path(args.out)
    if path.exists() and not args.force:
        raise UserError(f"{path} already exists; choose another name, or overwrite it with --force.")
    model = read_huggingface(args.source) if args.source else fresh_model(args.preset, args.seed)
    write_model(path, model, args.precision)
    c = model.config
    print(f"wrote {path}: {c.num_parameters:,} parameters in {args.precision}, {path.stat().st_size / 1e6:,.1f} MB")
    print(f"  maxT={c.maxT} V={c.V} L={c.L} NH={c.NH} C={c.C}")
    return 0


def fresh_model(name: str, seed: int) -> GPT2:
    """A model of the preset with fresh weights. Raises UserError for an unknown preset."""
    model = GPT2(preset(name))
    model.init_weights(seed)
    return model
