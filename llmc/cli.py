"""The command `llmc`: one subcommand for each task; only the one that is called gets imported.

Exit status: 0 success · 1 a check failed (verify, exercises --check) · 2 bad input, or training was interrupted · 3
training diverged · 130 anything else was interrupted. With 2, 3 and 130, one sentence on stderr explains why.
"""

import argparse
import os
import sys
from contextlib import suppress
from importlib import import_module

from llmc.errors import UserError, why
from llmc.interrupts import STATUS, raise_again
from llmc.resources import settle
from llmc.terminal import llmc_command


class Parser(argparse.ArgumentParser):
    """Like argparse's parser, but it reports a mistake in one sentence."""

    def error(self, message):
        """Raise UserError instead of printing the usage."""
        raise UserError(f"{message} (see `{llmc_command(*self.prog.split()[1:], '--help')}`).")


COMMANDS = {  # the name of a file in llmc/commands -> what the command does
    "train": "train a GPT-2 and keep it in runs/",
    "sample": "generate text with a trained model",
    "eval": "measure a model: loss and bits per byte on tokens, or accuracy on HellaSwag",
    "sweep": "train with several learning rates side by side, and compare",
    "data": "prepare a corpus",
    "init": "make a model file with fresh weights or those of a Hugging Face GPT-2",
    "export": "write a model in Hugging Face's format",
    "verify": "compare a model file with one of llm.c's debug states",
    "bench": "measure a training step",
    "doctor": "show what this machine has and what is missing",
    "report": "print what to paste into an issue: versions, and your answer to an exercise with its check's message",
    "start": "make your own copy of the course, for your answers",
    "update": "get the newest version of the course, and keep your answers",
    "lab": "open the course in JupyterLab",
    "progress": "show which exercises are done and what comes next",
    "exercises": "build the exercises (for authors), or grade or export them (for teachers)",
}

EXAMPLES = """examples:
  llmc train                          takes three minutes on two cores and puts a model into runs/tiny/
  llmc sample --prompt "The "         let the newest run continue the text
  llmc train --steps 200 --name quick
  llmc train --resume                 continue the newest run where it stopped
  llmc train --recipe cpu-demo        llm.c's own demo: GPT-2 124M on Shakespeare
  llmc start my-course                put lessons and exercises into your own folder, which `git pull` never touches
"""


def module_of(command):
    """llmc.commands.<command>, with `add_arguments(parser)` and `run(args)`."""
    return import_module(f"llmc.commands.{command}")


def make_parser(command=None):
    """The parser; only `command` gets its arguments, so that no other command's modules need to be imported."""
    from llmc import __version__

    about = "GPT-2, trained and sampled without a deep-learning library."
    parser = Parser(
        prog="llmc", description=about, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"llmc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        if name == command:
            module_of(name).add_arguments(sub)
    parser.commands = commands.choices
    return parser


def main(argv=None) -> int:
    """Run the command line `argv` (sys.argv[1:] when None) and return the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # None: `>&-`
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows "?" instead of a traceback
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except UserError as error:
        return _refuse(error, error.status)
    except KeyboardInterrupt as error:
        return _refuse(str(error) or "interrupted.", 2 if str(error) else STATUS)
    except MemoryError as error:
        return _refuse(f"not enough memory ({error}); choose a smaller model, batch or sequence length.")
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        _drop_output()
        return 1
    except OSError as error:  # of a file that the command knew nothing about, or of the console
        _drop_output()
        output = "cannot write the output: " if error.errno else ""  # without a number, it is not the system's
        place = f"{error.filename}: " if error.filename else output
        return _refuse(f"{place}{why(error)}.")


def _run(argv) -> int:
    command = next((word for word in argv if not word.startswith("-")), None)
    if command in COMMANDS:
        settle()
    parser = make_parser(command)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.commands.get(command, parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    args.command_line = argv
    if args.command is None:
        parser.print_help()
        return 0
    if args.command != "lab":  # whose notebooks draw on the screen; no other command does, whatever the variable says
        os.environ["MPLBACKEND"] = "agg"
    module = module_of(args.command)
    raise_again()
    return module.run(args)


def _drop_output(stream=None):
    """Discard what a stream (default: stdout) still buffers, so that it cannot fail when the process ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def _refuse(sentence, status=2) -> int:
    """Print the sentence on stderr as a single line, without its line breaks, and return the exit status."""
    try:
        print("llmc: " + " ".join(str(sentence).split()), file=sys.stderr, flush=True)
    except OSError:  # a full disk: nobody can read it, but the status still says what it has to
        _drop_output(sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
