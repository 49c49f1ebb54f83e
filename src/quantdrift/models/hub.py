"""Bring a model or data set from the hub: huggingface_hub downloads, and this says what to do.

huggingface_hub keeps each finished file, goes on within a file after a break, and throws away the
part of a file when it gives up or its process ends. It is loaded when it is needed.
"""

import fnmatch
import glob
import hashlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from quantdrift.models.sources import FetchError

RepoType = Literal["model", "dataset"]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SMALL = ("*.json", "*.model", "*.txt", "*.jinja")
_PAUSES = (2, 5, 15, 30)
"""Seconds to wait before the hub is asked again, as long as no further file gets finished."""
_SECONDS_BETWEEN_LINES = 5.0


def fetch_hub(
    *,
    repository: str,
    revision: str,
    repo_type: RepoType = "model",
    files: Sequence[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> Path:
    """A snapshot of a hub repository, in the hub's own cache.

    Finished files are kept, even if this process is killed; the next call asks for the others. What
    the cache holds whole of a pinned commit is used without asking the hub; of a branch or tag,
    only where the hub cannot be reached. What was downloaded has the sizes that the hub lists, and
    large files (LFS) the hashes.

    Args:
        repository: owner and name.
        revision: a commit of 40 hex digits; a branch or tag may be another one tomorrow.
        repo_type: whether it holds a model or a data set.
        files: names and patterns, each of which must match; None: of a model, its safetensors, or
            PyTorch's files where it has none, and what is small; of a data set, everything.
        progress: is told every few seconds, in a line, how much has come.

    Raises:
        FetchError: gated, missing, broken, or no network; the message says what to do.
    """
    import httpx2
    from huggingface_hub.errors import HFValidationError

    asked = _Repository(repository, revision, repo_type, None if files is None else tuple(files))
    try:
        if _COMMIT.fullmatch(revision) and (snapshot := _cached(asked)):
            return snapshot
        return _fetched(asked, progress or (lambda line: None))
    except FetchError:
        raise
    except (HFValidationError, httpx2.HTTPError, OSError, RuntimeError) as error:  # the last: xet
        raise FetchError(_explained(asked, _behind(error))) from error


@dataclass(frozen=True)
class _Repository:
    """What is asked of the hub."""

    name: str
    revision: str
    type: RepoType
    patterns: tuple[str, ...] | None

    def __str__(self) -> str:
        return f"{self.name} at revision {self.revision}"

    def choose(self, names: Iterable[str]) -> list[str]:
        """Of the repository's files, those to fetch; none if one of the patterns matches none."""
        names = sorted(names)
        if self.patterns is None and self.type == "model":
            return _choose_weights(names)
        found = [fnmatch.filter(names, pattern) for pattern in self.patterns or ("*",)]
        return sorted(set().union(*found)) if all(found) else []

    def lacks(self, names: Sequence[str]) -> FetchError:
        """The error for a repository with these files and without those asked for."""
        wanted = "model*.safetensors, pytorch_model*.bin" if self.type == "model" else "files"
        if self.patterns is not None:
            absent = [p for p in self.patterns if not fnmatch.filter(names, p)]
            wanted = ", ".join(absent)
        some = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        return FetchError(
            f"{self} has no {wanted}; it has {some or 'no files'}. Correct config/{self.type}/."
        )


def _choose_weights(names: Sequence[str]) -> list[str]:
    # Below the top lie copies (original/, onnx/); consolidated.* are the same weights once more.
    flat = [name for name in names if "/" not in name and not name.startswith("consolidated")]
    small = [name for pattern in _SMALL for name in fnmatch.filter(flat, pattern)]
    for weights in ("model.safetensors", "*.safetensors", "pytorch_model*.bin"):
        if found := fnmatch.filter(flat, weights):
            return [*found, *small]
    return []


def _cached(asked: _Repository, *, unlisted: bool = False) -> Path | None:
    """The snapshot in the cache, if it has all that is asked for; the hub is not asked.

    A cache that others made may lack the repository's list of files, so that nobody can say
    whether it has all of them; such a snapshot is given only if `unlisted`.
    """
    from huggingface_hub import get_cached_repo_tree, snapshot_download
    from huggingface_hub.errors import CachedRepoTreeNotFoundError, LocalEntryNotFoundError

    about: Any = {"repo_type": asked.type, "revision": asked.revision}
    try:
        snapshot = Path(
            snapshot_download(asked.name, **about, local_files_only=True, allow_patterns=[])
        )
    except LocalEntryNotFoundError:
        return None
    try:
        sizes = {file.path: file.size for file in get_cached_repo_tree(asked.name, **about)}
    except CachedRepoTreeNotFoundError:
        if not unlisted:
            return None
        found = [file for file in snapshot.rglob("*") if file.is_file()]
        sizes = {file.relative_to(snapshot).as_posix(): file.stat().st_size for file in found}
    chosen = asked.choose(sizes)
    whole = all(_size(snapshot / name) == sizes[name] for name in chosen)
    return snapshot if chosen and whole else None


def _fetched(asked: _Repository, say: Callable[[str], object]) -> Path:
    """The snapshot, after what the cache lacks of it was downloaded."""
    import httpx2
    from huggingface_hub import HfApi, RepoFile, constants
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    hub = HfApi()
    about: Any = {"repo_type": asked.type, "revision": asked.revision}
    try:
        # This first question fails at once without a network; list_repo_tree tries for 23 s.
        commit = hub.repo_info(asked.name, **about, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT).sha
    except (httpx2.TransportError, OfflineModeIsEnabled, HfHubHTTPError) as error:
        refused = isinstance(error, HfHubHTTPError) and error.response.status_code < 500
        if not refused and (snapshot := _cached(asked, unlisted=True)):
            return snapshot
        raise
    tree = hub.list_repo_tree(asked.name, recursive=True, repo_type=asked.type, revision=commit)
    files = {file.path: file for file in tree if isinstance(file, RepoFile)}
    chosen = [files[name] for name in asked.choose(files)]
    if not chosen:
        raise asked.lacks(sorted(files))
    copy = _Copy(asked, str(commit), chosen)
    copy.complete(say)
    if asked.revision != commit:  # as the library notes it, for the day without a network
        reference = copy.home / "refs" / asked.revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(str(commit))
    return copy.snapshot


class _Copy:
    """The chosen files of one commit, as huggingface_hub's cache has them or has not."""

    def __init__(self, asked: _Repository, commit: str, files: Sequence[Any]) -> None:
        from huggingface_hub import constants
        from huggingface_hub.file_download import repo_folder_name

        self.asked, self.commit, self.files = asked, commit, files
        folder = repo_folder_name(repo_id=asked.name, repo_type=asked.type)
        self.home = Path(constants.HF_HUB_CACHE) / folder
        self.snapshot = self.home / "snapshots" / commit

    def complete(self, say: Callable[[str], object]) -> None:
        """Download what is missing, and check it."""
        missing = self._missing()
        if missing:
            self._require_space(_total(missing))
            self._drop(missing)  # one of another size
        self._download(_total(missing), say)
        if missing and (wrong := [file for file in self.files if not self._as_listed(file)]):
            self._drop(wrong)
            raise FetchError(
                f"{wrong[0].path} of {self.asked} is not the file that the hub lists: it was "
                "changed on its way, and is deleted. Run again; if that does not help, something "
                "between here and the hub changes files."
            )

    def _place(self, file: Any) -> Path:
        # The snapshot links to a blob, which may have come with another commit.
        linked = self.snapshot / file.path
        blob = self.home / "blobs" / (file.lfs.sha256 if file.lfs else file.blob_id)
        return linked if linked.exists() else blob

    def _missing(self) -> list[Any]:
        return [file for file in self.files if _size(self._place(file)) != file.size]

    def _drop(self, files: Iterable[Any]) -> None:
        for place in map(self._place, files):
            for path in (place.resolve(), place):
                path.unlink(missing_ok=True)

    def _require_space(self, needed: int) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        if (free := shutil.disk_usage(self.home).free) < needed:
            raise FetchError(
                f"{self.asked} needs {_bytes(needed, needed)} more and {self.home.parent} has "
                f"{_bytes(free, needed)} left: make room, or set HF_HOME to a folder on a larger "
                "disk."
            )

    def _as_listed(self, file: Any) -> bool:
        place = self._place(file)
        if _size(place) != file.size or not file.lfs:
            return _size(place) == file.size
        with place.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == file.lfs.sha256

    def _download(self, total: int, say: Callable[[str], object]) -> None:
        """Bring the snapshot; ask again while files get finished, and a few times more."""
        import httpx2
        from huggingface_hub import snapshot_download

        pauses = iter(_PAUSES)
        left = total
        while True:
            try:
                snapshot_download(
                    self.asked.name,
                    repo_type=self.asked.type,
                    revision=self.commit,
                    allow_patterns=[glob.escape(file.path) for file in self.files],
                    tqdm_class=_bar(f"Downloading {self.asked.name}", total - left, total, say),
                )
                return
            except (httpx2.HTTPError, OSError, RuntimeError) as error:
                before, left = left, _total(self._missing())
                if left < before:
                    pauses = iter(_PAUSES)
                pause = next(pauses, None)
                if pause is None or not _may_pass(_behind(error)):
                    raise
            time.sleep(pause)


def _total(files: Iterable[Any]) -> int:
    return sum(file.size for file in files)


def _behind(error: Exception) -> Exception:
    """What huggingface_hub means where it says that a file is not on this machine."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    hidden = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else None
    return hidden if isinstance(hidden, Exception) else error


def _may_pass(error: Exception) -> bool:
    """Whether the line or the hub failed: not a refusal, nor this machine (its disk is full)."""
    status = _status(error)
    if status is None:
        return getattr(error, "errno", None) is None
    return status in (408, 429) or status >= 500


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _bar(label: str, done: int, total: int, say: Callable[[str], object]) -> Any:
    """A progress bar for huggingface_hub that shows nothing and says a line now and then."""
    from huggingface_hub.utils import tqdm

    came = 0
    began = spoke = time.monotonic()
    lock = threading.Lock()
    if total:
        say(f"{label}: {_bytes(done, total)} of {_bytes(total, total)}")

    class Bar(tqdm):
        def __init__(self, *args: Any, **about: Any) -> None:
            # Of its three bars, the one that counts what is written.
            self._counts = about.get("name") == "huggingface_hub.snapshot_download"
            super().__init__(*args, **(about | {"disable": True}))

        def update(self, n: Any = 1) -> None:
            nonlocal came, spoke
            if not self._counts:
                return
            with lock:  # files come in several threads
                came += n
                now = time.monotonic()
                if now - spoke < _SECONDS_BETWEEN_LINES or came <= 0:
                    return
                spoke = now
                here = done + came
                left = (now - began) / came * (total - here)
                time_left = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
                say(f"{label}: {_bytes(here, total)} of {_bytes(total, total)}, {time_left} left")

    return Bar


def _bytes(count: int, scale: int) -> str:
    """A count of bytes in the unit that suits `scale`."""
    unit, name = next(
        u for u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if scale >= u[0] / 2 or u[0] == 1e3
    )
    return f"{count / unit:.1f} {name}"


def _size(file: Path) -> int:
    """Bytes of a file; -1 where there is none."""
    return file.stat().st_size if file.exists() else -1


def _explained(asked: _Repository, error: Exception) -> str:
    """What happened and what to do."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # Without the signatures that stand after the ? of an address.
    cause = re.sub(r"\?\S+", "", " ".join(str(error).split())) or type(error).__name__
    place = f"config/{asked.type}/"
    page = f"{constants.ENDPOINT}/{'datasets/' if asked.type == 'dataset' else ''}{asked.name}"
    status = _status(error)
    local = {
        "model": "put the checkpoint's directory in the model's place: "
        """--config set='["models=[path/to/directory]"]'.""",
        "dataset": f"put its files into a folder, named as in {place}: "
        """--config set='["data.dir=path/to/folder"]'.""",
    }[asked.type]
    if isinstance(error, GatedRepoError):
        return (
            f"{asked.name} is gated: accept its licence on {page}, then log in with "
            "`hf auth login` or set HF_TOKEN, and run again."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{asked.name} has no revision {asked.revision}: correct `revision` in {place}."
    if isinstance(error, RepositoryNotFoundError | HFValidationError):
        return (
            f"The hub has no {'data set' if asked.type == 'dataset' else asked.type} {asked.name}, "
            f"or it is private: correct `repository` in {place}, or log in with `hf auth login` or "
            "set HF_TOKEN."
        )
    if status == 401:
        return (
            f"The hub refuses the token it was given for {asked} ({cause}): log in anew with "
            "`hf auth login`, or correct HF_TOKEN; what is public needs none."
        )
    if status == 403:
        return (
            f"The hub denies {asked} ({cause}): give the token the right to read it (Settings, "
            f"Access Tokens), or look at {page} whether it was withdrawn."
        )
    if isinstance(error, OfflineModeIsEnabled):
        return (
            f"{asked} is not whole in {constants.HF_HUB_CACHE}, and HF_HUB_OFFLINE or "
            f"TRANSFORMERS_OFFLINE forbids to fetch it: unset them, or {local}"
        )
    return (
        f"{asked} could not be fetched from {constants.ENDPOINT} ({cause}). Finished files "
        f"are kept, and the next run goes on from there. Without a network, {local}"
    )
