"""The command `llmc`: one subcommand for each thing a user wants, each imported only when it is asked for.

Exit status: 0 done · 1 a check failed (verify, exercises --check) · 2 bad input or interrupted, one sentence on stderr.
"""

import argparse
import os
import sys
from dataclasses import fields
from importlib import import_module

from llmc.errors import UserError

TRAIN_HELP = {  # option -> help; type and default come from TrainSettings, which checks the values too
    "preset": "size of the model, see llmc/config.py",
    "data": "a corpus, or a folder with train.bin, val.bin and tokenizer.bin",
    "batch_size": "sequences per step, B",
    "sequence_length": "tokens per sequence, T",
    "steps": "updates to make",
    "learning_rate": "highest learning rate",
    "warmup": "steps in which the learning rate rises",
    "schedule": "cosine, linear, constant or wsd",
    "final_fraction": "share of the learning rate left at the end",
    "weight_decay": "AdamW's, on matrices and embeddings",
    "clip": "largest norm of the gradient",
    "seed": "of weights, batches and sample",
    "backend": "who computes the layers",
    "val_every": "steps between validations",
    "val_batches": "batches of a validation (default: all there are)",
    "sample_every": "steps between samples, 0 for none but the last",
    "sample_tokens": "tokens of a sample",
    "out": "the run folder, empty or not there yet (default: runs/NAME)",
    "name": "of the run folder in runs/; NAME-2, … when it is taken (default: the preset's)",
}
TYPES = {int: int, float: float, str: str, int | None: int, str | None: str}


class Parser(argparse.ArgumentParser):
    """Like argparse's, but a mistake is one sentence."""

    def error(self, message):
        """Raise UserError instead of printing the usage."""
        raise UserError(f"{message} (see `{self.prog} --help`).")


# --------------------------------------------------------------------------------------------------- the commands


def _train_arguments(parser):
    from llmc.training.settings import TrainSettings

    for field in fields(TrainSettings):
        if field.name not in TRAIN_HELP:
            continue
        text = TRAIN_HELP[field.name] + ("" if field.default is None else " (default: %(default)s)")
        name = "--" + field.name.replace("_", "-")
        parser.add_argument(name, type=TYPES[field.type], default=field.default, help=text, metavar=_metavar(field))
    parser.add_argument("--in-order", action="store_true", help="take the batches in llm.c's order instead of shuffled")


def _metavar(field):
    if "float" in str(field.type):
        return "X"
    return "N" if "int" in str(field.type) else field.name.upper()


def _train(args) -> int:
    from llmc.training import TrainSettings, train

    options = {name: getattr(args, name) for name in TRAIN_HELP}
    result = train(TrainSettings(**options, shuffle=not args.in_order))
    if result.run_dir is None:
        raise UserError("interrupted before the first step was complete; nothing was kept.")
    if result.interrupted:
        done = f"{result.steps} of {result.run.settings.steps}"
        raise UserError(f"interrupted after step {done}; model, log, curve and sample of it are in {result.run_dir}.")
    _print_summary(result)
    return 0


def _print_summary(result):
    """What was reached, where it is, and what to do with it."""
    from llmc.training.plot import finding
    from llmc.training.progress import clock

    print(f"\n--- sample\n{result.sample}\n---\n")
    print(finding(result.val, result.baselines, result.run.bytes_per_token), end=" ")
    print(f"({', '.join(f'{name} {value:.2f}' for name, value in result.baselines.items())} nats per token).")
    print(f"{result.steps} steps in {clock(result.seconds)}, {result.tokens_per_second:,.0f} tokens/s.")
    print(f"{result.run_dir} holds {', '.join(sorted(p.name for p in result.run_dir.iterdir()))}.")
    print(f'More text: llmc sample {result.run_dir} --prompt "The "')


def _sample_arguments(parser):
    parser.add_argument("run", nargs="?", help="a run folder, or its name in runs/ (default: the newest run)")
    parser.add_argument("--prompt", default="", help="text to continue (default: begin a document)")
    parser.add_argument("--temperature", type=float, default=1.0, help="0: the most probable token (default: 1.0)")
    parser.add_argument("--top-k", type=int, help="draw from the K most probable tokens only (default: from all)")
    parser.add_argument("--seed", type=int, default=1337, help="the same seed, the same text (default: 1337)")
    parser.add_argument("--max-tokens", type=int, default=256, help="end after so many tokens (default: 256)")
    parser.add_argument("--window", type=int, help="tokens that the model looks back on (default: all its positions)")
    parser.add_argument("--backend", default="numpy", help="who computes the layers (default: numpy)")


def _sample(args) -> int:
    from llmc.checkpoints import read_model
    from llmc.data.tokenizer import read_tokenizer
    from llmc.sampling import check_options, sample_text
    from llmc.training.run_folder import MODEL, TOKENIZER, find_run

    check_options(args.max_tokens, args.temperature, args.top_k)
    folder = find_run(args.run)
    model, encoding = read_model(folder / MODEL, args.backend), read_tokenizer(folder / TOKENIZER)
    options = (args.prompt, args.max_tokens, args.temperature, args.top_k, args.seed, args.window)
    pieces = sample_text(model, encoding, *options)
    print(args.prompt, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    return 0


def _progress_arguments(parser):
    pass


def _progress(args) -> int:
    from llmc.course import progress

    print(progress())
    return 0


def _from(module):
    """The (add_arguments, run) of a module that is imported when one of the two is called."""
    return lambda parser: import_module(module).add_arguments(parser), lambda args: import_module(module).run(args)


COMMANDS = {  # name -> (what it does, add_arguments, run)
    "train": ("train a GPT-2 and keep it in runs/", _train_arguments, _train),
    "sample": ("let a trained model write", _sample_arguments, _sample),
    "eval": ("measure a model on tokens: loss and bits per byte", *_from("llmc.evaluation")),
    "sweep": ("train with several learning rates side by side, and compare", *_from("llmc.training.sweep")),
    "data": ("prepare a corpus", *_from("llmc.data")),
    "init": ("make a model file: fresh weights, or those of a Hugging Face GPT-2", *_from("llmc.checkpoints.init")),
    "export": ("write a model in Hugging Face's format", *_from("llmc.checkpoints.export")),
    "verify": ("compare a model file with a debug state of llm.c", *_from("llmc.verify")),
    "bench": ("measure a training step", *_from("llmc.bench")),
    "doctor": ("look at what this machine has, and what is missing", *_from("llmc.course.doctor")),
    "progress": ("show which exercises are done, and what is next", _progress_arguments, _progress),
    "exercises": ("get a folder of exercises of your own, or keep it up to date", *_from("llmc.course.command")),
}

EXAMPLES = """examples:
  llmc train                          three minutes on two cores, then runs/tiny/ holds a model
  llmc sample --prompt "The "         the newest run goes on writing
  llmc train --steps 200 --name quick
  llmc exercises start mine           the exercises in a folder of your own, which `git pull` never touches
"""


# ---------------------------------------------------------------------------------------------------------- main


def make_parser(command=None):
    """The parser; only `command` gets its arguments, so that no other command's modules are imported."""
    from llmc import __version__

    about = "GPT-2, trained and sampled without a deep-learning library."
    parser = Parser(
        prog="llmc", description=about, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"llmc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, (text, add_arguments, _) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        if name == command:
            add_arguments(sub)
    return parser


def main(argv=None) -> int:
    """Run the command line `argv` (sys.argv[1:] when None); returns the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows "?" instead of a traceback
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except UserError as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return _refuse("interrupted.")
    except MemoryError as error:
        return _refuse(f"not enough memory ({error}); choose a smaller model, batch or sequence length.")
    except BrokenPipeError:  # the reader (`| head`) has seen enough; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(argv) -> int:
    command = next((word for word in argv if not word.startswith("-")), None)
    parser = make_parser(command)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    return COMMANDS[args.command][2](args)


def _refuse(sentence) -> int:
    """One line on stderr, whatever it was made of, and exit status 2."""
    print("llmc: " + " ".join(str(sentence).split()), file=sys.stderr, flush=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
