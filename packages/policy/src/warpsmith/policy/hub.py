"""Models of the Hugging Face hub by name: resolved to one commit, downloaded once, used from the hub's own cache."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from warpsmith.policy.errors import CheckpointError, FetchError
from warpsmith.policy.files import appearing_directory
from warpsmith.policy.hub_download import download
from warpsmith.policy.loading import check_directory, check_weights

RECORD: Final = "hub.json"
"""File next to the weights, or in a run's directory, that names the commit they come from."""

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SNAPSHOT: Final = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)/snapshots/(?P<commit>[0-9a-f]{40})")

_DEFAULT: Final = "main"

# What a model is loaded from; no other weights, no code, no folders.
_WANTED: Final = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]
_UNWANTED: Final = ["*/*"]


@dataclass(frozen=True)
class HubModel:
    """A commit of a model.

    Attributes:
        name: owner and name on the hub.
        commit: the commit, 40 hexadecimal digits.
    """

    name: str
    commit: str

    def __str__(self) -> str:
        """Return both, as messages show them."""
        return f"{self.name}@{self.commit}"


def hub_name(path: str | Path) -> str | None:
    """Return the name of a model on the hub if `path` is one; None if it is a path.

    An existing file or directory of that name is a path, and so is everything below an existing first folder: a
    missing `runs/tiny` is a wrong path, and not a model of the owner `runs`.
    """
    path = Path(path)
    name = path.as_posix()
    if _NAME.fullmatch(name) is None or path.exists() or Path(path.parts[0]).exists():
        return None
    return name


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a commit, and not a branch or a tag that can move."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def snapshot_of(path: str | Path) -> HubModel | None:
    """Return the model and commit of a directory in the hub's cache; None for any other directory."""
    match = _SNAPSHOT.search(Path(path).as_posix())
    return None if match is None else HubModel(f"{match['owner']}/{match['name']}", match["commit"])


def local_directory(
    path: str | Path, revision: str | None = None, *, say: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the directory of a model: `path` itself, or for a hub name its files in the hub's cache.

    A download that was interrupted is continued. Processes of one machine that ask at the same time download once.
    A commit that is in the cache completely is used without the network. A directory of the cache that is gone, or was
    named on another machine, is downloaded again.

    Args:
        path: a directory, or a name such as `Qwen/Qwen3-8B`.
        revision: a branch, tag or commit of the hub name; None is the default branch.
        say: called with the name of each step.

    Raises:
        FetchError: the hub has no such model or revision, or it cannot be reached and the cache lacks files.
        CheckpointError: `revision` is given for a directory.
    """
    lost = snapshot_of(path)
    if lost is not None and not Path(path).exists():
        path, revision = lost.name, lost.commit
    name = hub_name(path)
    if name is None:
        if revision is not None and Path(path).name != revision:
            raise CheckpointError(
                f"The revision {revision} is given for {path}, which is not a name on the hub, but a path.",
                "Remove policy.revision, or name a model such as Qwen/Qwen3-8B.",
            )
        return Path(path)
    if revision is not None and is_commit(revision) and (cached := _cached(name, revision)) is not None:
        return cached
    return _present(_resolved(name, revision), revision, say)


def cached_directory(path: str | Path, revision: str | None = None) -> Path:
    """Return the directory of a hub name in the cache if it is there, else `path`; asks no network."""
    name = hub_name(path)
    found = None if name is None else _cached(name, revision or _DEFAULT)
    return found or Path(path)


def fetch(
    name: str, out: str | Path, revision: str | None = None, *, say: Callable[[str], None] = lambda _: None
) -> HubModel:
    """Download a model into a directory of its own, with `hub.json` that names its commit.

    Files arrive in the hub's cache first, where an interrupted download is continued; weights are linked from there
    if `out` is on the same disk.

    Raises:
        FetchError: as `local_directory`; or `name` is not a hub name.
        CheckpointError: `out` is not empty, or the files are not a complete model.
    """
    if _NAME.fullmatch(name) is None:
        raise FetchError(f"{name} is not a name on the hub.", "Give owner and name, such as Qwen/Qwen3-8B.")
    with appearing_directory(Path(out)) as scratch:
        model = _resolved(name, revision)
        for file in sorted(_present(model, revision, say).iterdir()):
            _place(file, scratch / file.name)
        record(scratch, model)
        check_weights(check_directory(scratch))
    say(f"wrote {out}")
    return model


def record(directory: Path, model: HubModel) -> None:
    """Write the record of a model's commit into a directory."""
    (directory / RECORD).write_text(json.dumps(asdict(model), indent=2) + "\n", encoding="utf-8")


def recorded(directory: Path) -> HubModel | None:
    """Return the model that a directory's record names; None if it has none.

    Raises:
        CheckpointError: the record is damaged.
    """
    path = directory / RECORD
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return HubModel(str(value["name"]), str(value["commit"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is damaged: {error!r}.", "Restore it, or name the commit by revision."
        ) from error


def _place(file: Path, target: Path) -> None:
    """Link weights and copy the rest: who edits a small file must not edit the cache."""
    if file.suffix == ".safetensors":
        try:
            os.link(file.resolve(), target)
        except OSError:
            pass
        else:
            return
    shutil.copyfile(file, target)


def _resolved(name: str, revision: str | None) -> HubModel:
    """Return the commit of a revision; without a network, the one that the cache has under this revision."""
    from huggingface_hub import HfApi

    try:
        found = HfApi().model_info(name, revision=revision, timeout=30).sha
    except Exception as error:  # the HTTP library under the hub's client differs by its version
        cached = None if _is_refusal(error) else _cached(name, revision or _DEFAULT)
        if cached is None:
            raise _failed(name, revision, error) from error
        return HubModel(name, cached.name)
    if found is None:
        raise FetchError(f"The hub names no commit of {name}.", "Try again.")
    return HubModel(name, found)


def _cached(name: str, revision: str) -> Path | None:
    """Return the directory of a revision in the cache if it is complete; asks no network."""
    try:
        directory = Path(_snapshot(name, revision, local_files_only=True))
        check_weights(check_directory(directory))
    except (OSError, CheckpointError):
        return None
    return directory


def _present(model: HubModel, revision: str | None, say: Callable[[str], None]) -> Path:
    """Return the directory of a model in the cache after downloading what is missing, and note what `revision` means.

    The hub's client notes it too, for what it is asked by branch; without a network it is looked up there.
    """
    directory = _cached(model.name, model.commit) or _downloaded(model, say)
    if not is_commit(revision):
        reference = directory.parent.parent / "refs" / (revision or _DEFAULT)
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(model.commit, encoding="utf-8")
    return directory


def _downloaded(model: HubModel, say: Callable[[str], None]) -> Path:
    from huggingface_hub import HfApi

    say(f"downloading {model}")
    try:
        for file in HfApi().list_repo_files(model.name, revision=model.commit):
            if "/" not in file and file.endswith(".safetensors"):
                download(model.name, model.commit, file, say)
        return Path(_snapshot(model.name, model.commit, local_files_only=False))
    except Exception as error:  # as in `_resolved`
        raise _failed(model.name, model.commit, error) from error


def _snapshot(name: str, revision: str, *, local_files_only: bool) -> str:
    from huggingface_hub import snapshot_download

    options: dict[str, Any] = {"allow_patterns": _WANTED, "ignore_patterns": _UNWANTED}
    return str(snapshot_download(name, revision=revision, local_files_only=local_files_only, **options))


def _is_refusal(error: Exception) -> bool:
    """Whether the hub answered, and said that there is no such model or revision for this user."""
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    return isinstance(error, RepositoryNotFoundError | RevisionNotFoundError | HFValidationError)


def _failed(name: str, revision: str | None, error: Exception) -> FetchError:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    if isinstance(error, RevisionNotFoundError):
        return FetchError(
            f"{name} has no revision {revision} on the hub.", "Name a branch, a tag or a commit of 40 digits."
        )
    if isinstance(error, GatedRepoError):
        return FetchError(
            f"{name} may be downloaded only by users whom its owner has admitted.",
            "Accept its terms on its page, then `hf auth login`, or set HF_TOKEN.",
        )
    if isinstance(error, RepositoryNotFoundError):
        return FetchError(
            f"There is no directory {name} here, and the hub has no model of that name that you may read.",
            "Check the name. For a private model, `hf auth login` or set HF_TOKEN.",
        )
    cause = " ".join(str(error).split())[:200] or type(error).__name__
    return FetchError(
        f"There is no directory {name} here, and it could not be downloaded from the hub: {cause.rstrip('.')}.",
        "Check the network and repeat the command: what has arrived is kept. Without a network, copy the model's "
        "directory here and name that.",
    )
