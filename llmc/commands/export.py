"""`llmc export`: write an llmc or llm.c model for Hugging Face's transformers, with its tokenizer if it has one.

Load it with AutoModelForCausalLM.from_pretrained(FOLDER) and AutoTokenizer.from_pretrained(FOLDER).
"""

from llmc.checkpoints.folder import load_model
from llmc.checkpoints.huggingface import write_huggingface, write_huggingface_tokenizer
from llmc.checkpoints.model_file import check_precision, read_config
from llmc.errors import UserError
from llmc.files.atomic_write import atomic_folder
from llmc.files.reading import user_path
from llmc.training.find_models import MODEL_HELP, find_tokenizer, read_newest


def add_arguments(parser):
    """Declare the arguments of `llmc export` on an argparse parser."""
    parser.add_argument("model", help=MODEL_HELP)
    out = "the folder to write to, which must be empty or not exist yet"
    parser.add_argument("-o", "--out", required=True, metavar="FOLDER", help=out)
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer file (default: the one next to the model)")
    parser.add_argument("--precision", default="float32", help="float32 or bfloat16 (default: float32)")
    parser.add_argument("--force", action="store_true", help="write even into a folder that is not empty")


def run(args) -> int:
    """Write the folder and print its contents. Always returns 0. Raises UserError for bad files, before writing."""
    check_precision(args.precision)
    folder = user_path(args.out)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder; choose another name.")
    if folder.exists() and not args.force and any(folder.iterdir()):
        raise UserError(f"the folder {folder} is not empty; choose another, or write into it with --force.")
    model, encoding = read_newest(args.model, lambda path: _read(path, args))
    with atomic_folder(folder) as new:
        if encoding:
            write_huggingface_tokenizer(new, encoding, model.config.maxT)
        write_huggingface(new, model, encoding.eot_token if encoding else None, args.precision)
    print(f"wrote {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    if not encoding:
        print(
            "The folder has no tokenizer because there is none next to the model; give the model's own with"
            " --tokenizer."
        )
    return 0


def _read(path, args):
    """(model, its tokenizer or None)."""
    encoding = find_tokenizer(read_config(path).V, args.tokenizer, [path.parent], required=False)
    return load_model(path), encoding
