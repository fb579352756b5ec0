"""Finding a trained model, given as a run or as a file, together with its settings and its tokenizer."""

from pathlib import Path

import llmc
from llmc.checkpoints.folder import FINAL_MODEL, newest_model, saved_at
from llmc.checkpoints.huggingface import read_huggingface
from llmc.checkpoints.model_file import write_model
from llmc.checkpoints.saved_files import check_file
from llmc.config import GPT2Config
from llmc.data.corpus import TOKENIZER, data_home
from llmc.data.gpt2_tokenizer import LLMC_NAME, gpt2_encoding
from llmc.data.tokenizer import read_tokenizer, token_table
from llmc.errors import UserError
from llmc.files.reading import user_path
from llmc.terminal import llmc_command, shown
from llmc.training.settings import TrainSettings
from llmc.training.settings_file import SETTINGS, read_settings

OPENAI = tuple(f"openai-community/gpt2{size}" for size in ("", "-medium", "-large", "-xl"))  # on the Hugging Face hub
MODEL_HELP = (
    f"a run (its folder or its name in runs/), a model file, or one of OpenAI's models: {OPENAI[0]}, …, {OPENAI[-1]}"
)
REPLACED = 5  # times that a file may vanish under its reader; a run that saves more often than it can be read is absurd


def runs_home() -> Path:
    """The folder of all runs: `runs/` in the source checkout when llmc runs from one, else ./runs."""
    checkout = Path(llmc.__file__).resolve().parents[1]
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "runs"


def find_run(run=None) -> Path:
    """The folder of a run, given as a path or as a name in runs/; by default, the newest run in runs/.

    Raises UserError if there is no such run, or if it holds no model yet.
    """
    if run is None:
        models = filter(None, map(newest_model, runs_home().glob("*/")))
        newest = max(models, key=saved_at, default=None)
        if newest is None:
            raise UserError(f"there is no trained model in {shown(runs_home())}; {_make_one()}.")
        return newest.parent
    places = [user_path(run), runs_home() / run]
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None and places[0].exists():
        raise UserError(f"{run} is a file, not the folder of a run; give the folder.")
    if folder is None:
        fetch = llmc_command("init", "--from", run, "-o", "FILE")
        hub = f", or if that is a model on the Hugging Face hub, download it with `{fetch}`" if "/" in str(run) else ""
        raise UserError(f"there is no run {run}, neither here nor in {shown(runs_home())}; {_make_one()}{hub}.")
    if newest_model(folder) is None:
        raise UserError(
            f"{folder} holds no {FINAL_MODEL}: it is not a run folder, or its run ended before the first checkpoint;"
            " give another run."
        )
    return folder


def _make_one() -> str:
    return f"make one with `{llmc_command('train')}`"


def find_model(model=None) -> Path:
    """The file of a model, given as its path, as its run (see `find_run`), or as one of OPENAI, which is downloaded
    once.

    Raises UserError if there is none.
    """
    if model in OPENAI and not Path(model).exists():
        return _openais(model)
    path = None if model is None else user_path(model)
    if path is not None and path.exists() and not path.is_dir():
        return path  # a pipe or a device too: whoever opens it says what is wrong
    return newest_model(find_run(model))


def _openais(name) -> Path:
    """One of OpenAI's models as a file in llm.c's format, kept in `data_home()`/weights."""
    path = data_home() / "weights" / f"{name.rpartition('/')[2]}.bin"
    if not path.is_file():
        write_model(path, read_huggingface(name))
    return path


def read_newest(model, read):
    """read(path) for the file that `find_model` finds, or for a newer one if a run in progress has replaced it
    meanwhile.

    Raises UserError when there is none, and whatever `read` raises for a file that is still there.
    """
    for _ in range(REPLACED):
        path = find_model(model)
        try:
            return read(path)
        except UserError:
            if path.exists():
                raise
    return read(find_model(model))


def run_settings(model_path) -> TrainSettings | None:
    """The settings of the run whose folder holds this model file; None for a model outside a run folder.

    Raises UserError when the settings are damaged.
    """
    folder = Path(model_path).parent
    return read_settings(folder) if (folder / SETTINGS).is_file() else None


def trained_window(settings, config) -> int:
    """How many tokens back a model learned to look: its run's sequence length or, without settings, maxT."""
    return min(settings.sequence_length, config.maxT) if settings else config.maxT


def find_tokenizer(V: int, chosen=None, folders=(), required=True):
    """The tokenizer for a model with V tokens: the file `chosen`, else the one in `folders`, else GPT-2's.

    None if there is none and it is not required. Raises UserError for a file that is missing, damaged, changed since
    its run saved it or of the wrong size, and if the folders hold different tokenizers.
    """
    places = [folder / name for folder in dict.fromkeys(folders) for name in (TOKENIZER, LLMC_NAME)]
    paths = [Path(chosen)] if chosen else [path for path in places if path.is_file()]
    for path in paths:
        check_file(path)
    encodings = [read_tokenizer(path) for path in paths]
    for path, encoding in zip(paths, encodings):
        if encoding.n_vocab != V:
            raise UserError(
                f"model and tokenizer do not belong together: the model has {V} tokens, and {path} has"
                f" {encoding.n_vocab}; give the model's own tokenizer with --tokenizer."
            )
        if token_table(encoding) != token_table(encodings[0]):
            raise UserError(f"{paths[0]} and {path} are different tokenizers; choose the right one with --tokenizer.")
    return encodings[0] if encodings else _gpt2_tokenizer(V, folders, required)


def _gpt2_tokenizer(V, folders, required):
    """GPT-2's tokenizer, which is assumed for a vocabulary of its size."""
    try:
        if V == GPT2Config().V:
            return gpt2_encoding()
        where = " or ".join(map(str, dict.fromkeys(folders)))
        raise UserError(f"there is no {TOKENIZER} in {where}; give the model's own with --tokenizer.")
    except UserError:
        if required:
            raise
        return None
