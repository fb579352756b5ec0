"""Finding the files of a Hugging Face model in a local folder, or on the hub through huggingface_hub (the extra
`[hf]`)."""

import re
from pathlib import Path
from textwrap import shorten

from llmc.errors import UserError
from llmc.files.checked_json import read_json
from llmc.files.digest import digest
from llmc.files.reading import user_path
from llmc.terminal import pip

CONFIG, WEIGHTS, SHARDS = "config.json", "model.safetensors", "model.safetensors.index.json"
REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
LOCAL = "or give a local folder with config.json and model.safetensors"
TIMEOUT = 10  # seconds
DIGEST = re.compile(r"[0-9a-f]{64}")


def find_files(source):
    """(path of config.json, paths of the safetensors files). Raises UserError if one of them is missing."""
    path = user_path(source)
    if path.is_file():
        return _required(_in_folder(path.parent), CONFIG, source), [path]
    get = _in_folder(path) if path.is_dir() else _on_hub(str(source))
    config_path, whole = _required(get, CONFIG, source), get(WEIGHTS)
    if whole is not None:
        return config_path, [whole]
    shards = get(SHARDS)
    if shards is None:
        raise UserError(f"{source} holds no {WEIGHTS}; save the model again with transformers' save_pretrained.")
    return config_path, [_required(get, name, source) for name in _shard_names(shards)]


def _in_folder(folder):
    """A function from the name of a file in a local folder to its path, or None if there is no such file."""
    return lambda name: folder / name if (folder / name).is_file() else None


def _required(get, name, source):
    path = get(name)
    if path is None:
        raise UserError(f"{source} lacks {name}; give the whole folder of a GPT-2 that transformers can load.")
    return path


def _shard_names(path):
    """The file names in an index of shards. Raises UserError if one leads out of the folder."""
    places = read_json(path, dict).get("weight_map")
    names = sorted(set(map(str, places.values()))) if isinstance(places, dict) else []
    if not names or any(Path(name).name != name for name in names):
        raise UserError(f"{path} is damaged: it does not say which files hold the weights; get a fresh copy.")
    return names


def _on_hub(repository: str):
    """A function from the name of a file in a repository to the path of a downloaded copy, or None if it has no such
    file.

    Raises UserError if this cannot be the name of a repository, or if huggingface_hub is missing; the function raises
    it if there is no such repository or no connection.
    """
    if not REPOSITORY.fullmatch(repository):
        raise UserError(
            f"there is no folder {repository}, and nothing on the Hugging Face hub can have that name; check the name."
        )
    try:
        import huggingface_hub as hub
        from huggingface_hub import errors, utils
    except ImportError:
        install = pip("install", "huggingface_hub")
        raise UserError(
            f"there is no folder {repository}, and to reach the Hugging Face hub you need `{install}`; {LOCAL}."
        ) from None

    def get(name):
        try:
            return _checked(Path(_download(hub, utils, repository, name)), repository)
        except UserError:
            raise
        except errors.RepositoryNotFoundError:
            raise UserError(
                f"there is no folder {repository} here, and no such repository on the Hugging Face hub that you"
                " can access; check the name."
            ) from None
        except errors.LocalEntryNotFoundError as error:  # its error when there is no connection
            raise _unreachable(repository, error) from None
        except errors.EntryNotFoundError:
            return None
        except Exception as error:  # from whichever HTTP library this version of huggingface_hub uses
            raise _unreachable(repository, error) from None

    return get


def _download(hub, utils, repository, name):
    """The path of the file, from huggingface_hub's cache if it is there. Raises huggingface_hub's errors."""
    try:
        return hub.hf_hub_download(repository, name, local_files_only=True)
    except utils.EntryNotFoundError:
        # Left alone, it would try for half a minute to reach the hub; one request shows whether that is possible.
        utils.get_session().head(hub.constants.ENDPOINT, timeout=TIMEOUT)
        return hub.hf_hub_download(repository, name)


def _checked(path, repository):
    """The path. Raises UserError if the cache names a large file by its SHA-256 but the file has a different one."""
    kept = path.resolve()
    if DIGEST.fullmatch(kept.name) and digest(kept) != kept.name:
        raise UserError(f"{path} of {repository} is damaged: its SHA-256 differs from the hub's; delete {kept}.")
    return path


def _unreachable(repository, error):
    reason = shorten(str(error), 120, placeholder=" …").rstrip(".") or type(error).__name__
    return UserError(f"cannot fetch {repository} from the Hugging Face hub ({reason}); {LOCAL}.")
