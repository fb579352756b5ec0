"""`llmc export`: a model of llmc or llm.c for Hugging Face's transformers, with its tokenizer when there is one.

AutoModelForCausalLM.from_pretrained(FOLDER), AutoTokenizer.from_pretrained(FOLDER)
"""

from pathlib import Path

from llmc.checkpoints.huggingface import write_huggingface
from llmc.checkpoints.huggingface_tokenizer import write_huggingface_tokenizer
from llmc.checkpoints.model_file import read_config, read_model
from llmc.errors import UserError


def add_arguments(parser):
    """Declare the arguments of `llmc export` on an argparse parser."""
    parser.add_argument("model", help="a model file of llm.c, a run folder, or a run's name in runs/")
    parser.add_argument("-o", "--out", required=True, metavar="FOLDER", help="the folder to write, empty or not there")
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer file (default: the one beside the model)")
    parser.add_argument("--force", action="store_true", help="write into a folder that holds something")


def run(args) -> int:
    """Write the folder and say what is in it; always 0. Raises UserError for unusable files, before writing."""
    from llmc.training.trained import find_encoding, find_trained

    folder, trained = Path(args.out), find_trained(args.model)
    if folder.exists() and not args.force and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder} is there and not an empty folder; choose another, or give --force.")
    encoding = find_encoding(read_config(trained.path).V, args.tokenizer, [trained.folder], required=False)
    model = read_model(trained.path)
    if encoding:
        write_huggingface_tokenizer(folder, encoding, model.config.maxT)
    write_huggingface(folder, model, encoding.eot_token if encoding else None)
    print(f"wrote {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    if not encoding:
        print(
            "There is no tokenizer beside the model, so none is in the folder; give the model's own with --tokenizer."
        )
    return 0
