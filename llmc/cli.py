"""The command `llmc`: one subcommand for each thing a user wants, each imported only when it is asked for.

Exit status: 0 done · 1 a check failed (verify, exercises --check) · 2 bad input or interrupted, one sentence on stderr.
"""

import argparse
import os
import sys
from importlib import import_module

from llmc.errors import UserError


class Parser(argparse.ArgumentParser):
    """Like argparse's, but a mistake is one sentence."""

    def error(self, message):
        """Raise UserError instead of printing the usage."""
        raise UserError(f"{message} (see `{self.prog} --help`).")


# --------------------------------------------------------------------------------------------------- the commands


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
    "train": ("train a GPT-2 and keep it in runs/", *_from("llmc.training.command")),
    "sample": ("let a trained model write", *_from("llmc.sample")),
    "eval": ("measure a model on tokens: loss and bits per byte", *_from("llmc.eval")),
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
  llmc train --resume                 the newest run goes on where it stopped
  llmc train --recipe cpu-demo        llm.c's own demonstration: GPT-2 124M on Shakespeare
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
