"""Models of a hub on the loopback: whole, broken, refused, missing, and without any network."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from client import Client, Fetched, answer
from server import Cut, Failure
from transformers import LlamaConfig, LlamaForCausalLM

from quantdrift.models import sources
from quantdrift.models.checkpoint import Checkpoint, prepare
from quantdrift.models.sources import FetchError

NAME = "someone/tiny"
LARGE = np.random.default_rng(0).bytes(300_000)
FILES = {"config.json": b"{}", "model.safetensors": LARGE, "README.md": b"# Tiny"}
ROOT = Path(__file__).parents[2]

# The script as Snakemake runs it: under `__main__`, with an object named snakemake.
SCRIPT = """
import json, runpy, sys
from types import SimpleNamespace
about = json.loads(sys.argv[2])
snakemake = SimpleNamespace(
    log=[about["log"]], threads=1, output=[about["output"]],
    params=SimpleNamespace(source=about["source"], downloads=about["downloads"]),
)
runpy.run_path(sys.argv[1], {"snakemake": snakemake}, "__main__")
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> tuple[LlamaForCausalLM, Path]:
    """A random Llama in several shards."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=128,
        )
    )
    folder = tmp_path_factory.mktemp("tiny")
    model.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("model-*-of-*.safetensors"))) > 2
    return model, folder


def run_script(client: Client, folder: Path, source: dict[str, str], **environment: str):
    about = {
        "source": {"kind": "hub"} | source,
        "downloads": str(folder / "downloads"),
        "log": str(folder / "checkpoint.log"),
        "output": str(folder / "source.json"),
    }
    script = ROOT / "workflow/scripts/checkpoint.py"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(script), json.dumps(about)],
        env=client.environment(**environment),
        capture_output=True,
        text=True,
        check=False,
    )


# ------------------------------------------------------------------------------------ good


def test_the_rule_fetches_a_sharded_model_that_opens(hub, client, tiny, tmp_path):
    model, folder = tiny
    hub.page = 3  # of several, as listings of the hub are
    commit = hub.publish("models", NAME, {file.name: file for file in folder.iterdir()})
    done = run_script(client, tmp_path, {"repository": NAME, "revision": commit})
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "checkpoint.log").read_text()
    for place in (log, done.stderr):  # the terminal sees how far a download is
        assert re.search(r"Downloading someone/tiny: 0\.0 kB of \d+\.\d kB", place)
    assert "the checkpoint lies at" in log
    lies_at = Path(json.loads((tmp_path / "source.json").read_text())["lies_at"])
    prepare(
        lies_at,
        tmp_path / "model",
        regauge_seed=None,
        progress=lambda items, _total, _label: iter(items),
    )
    opened = Checkpoint(tmp_path / "model")
    for block in range(2):
        weight = model.model.layers[block].self_attn.q_proj.weight.detach().numpy()
        np.testing.assert_array_equal(opened.matrix("q", block), weight)


def test_only_what_is_needed_is_fetched(hub, client):
    copies = ("consolidated.safetensors", "original/model.safetensors", "onnx/model.onnx")
    needed = ("config.json", "tokenizer.model", "merges.txt", "chat_template.jinja")
    files = FILES | dict.fromkeys([*copies, *needed, "model.fp16.safetensors"], b"x")
    files["pytorch_model.bin"] = b"y"
    hub.publish("models", NAME, files)
    assert client.fetch(NAME).files == {*needed, "model.safetensors"}


def test_without_safetensors_pytorch_files_are_fetched(hub, client):
    files = {"config.json": b"{}", "pytorch_model.bin": LARGE, "training_args.bin": b"x"}
    hub.publish("models", NAME, files)
    assert client.fetch(NAME).files == {"config.json", "pytorch_model.bin"}


def test_a_repository_without_weights_tells_what_it_has(hub, client):
    hub.publish("models", NAME, {"README.md": b"x", "tiny-Q4_K_M.gguf": b"GGUF"})
    message = r"tiny at revision main has no model\*\.safetensors.*it has README.md, tiny-Q4_K_M"
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME)


def test_a_token_goes_to_the_hub_and_nowhere_else(hub, client):
    hub.tokens.add("hf_good")
    hub.private.add(NAME)
    hub.publish("models", NAME, FILES)
    client.fetch(NAME, environment={"HF_TOKEN": "hf_good"})
    tokens = {one.path.startswith("/cdn"): one.headers.get("authorization") for one in hub.seen}
    assert tokens == {False: "Bearer hf_good", True: None}


def test_two_jobs_that_want_one_model_fetch_it_once(hub, client):
    commit = hub.publish("models", NAME, FILES)
    both = [client.start(NAME, commit, {}) for _ in range(2)]
    assert len({answer(one).path for one in both}) == 1
    assert len(hub.downloads("model.safetensors")) == 1


# ---------------------------------------------------------------------------------- broken


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_download_that_breaks_goes_on_from_there(hub, client, how):
    hub.publish("models", NAME, FILES)
    # More breaks than pauses: as long as something comes, it is asked for the rest.
    hub.cuts["model.safetensors"] = [Cut(50_000, how) for _ in range(4)]
    found = client.fetch(NAME)
    assert (found.path / "model.safetensors").read_bytes() == LARGE
    first, *others = hub.downloads("model.safetensors")
    starts = [int(one.range.removeprefix("bytes=").rstrip("-")) for one in others if one.range]
    assert first.range is None
    assert len(starts) == 4
    assert starts == sorted(starts)
    assert starts[0] > 0
    assert all(one.status == 206 for one in others)


def wait_for_bytes(client: Client, count: int) -> None:
    deadline = time.monotonic() + 30
    while sum(part.stat().st_size for part in client.cached("*.part")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_download_that_is_killed_goes_on_in_the_next_run(hub, client):
    commit = hub.publish("models", NAME, FILES)
    hub.cuts["model.safetensors"] = [Cut(200_000, "hang")]
    process = client.start(NAME, commit, {})
    wait_for_bytes(client, 150_000)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    came = max(part.stat().st_size for part in client.cached("*.part"))
    found = client.fetch(NAME, commit)
    assert (found.path / "model.safetensors").read_bytes() == LARGE
    assert hub.downloads("model.safetensors")[-1].range == f"bytes={came}-"
    assert not client.cached("*.part")
    assert found.lines[0].startswith(f"Downloading {NAME}: {came / 1e3:.1f} kB of 300.0 kB")


def test_a_key_pressed_ends_it_at_once(hub, client):
    hub.publish("models", NAME, FILES)
    hub.cuts["model.safetensors"] = [Cut(200_000, "hang")]
    process = client.start(NAME, "main", {"HF_HUB_DOWNLOAD_TIMEOUT": "2"})
    wait_for_bytes(client, 150_000)
    process.send_signal(signal.SIGINT)
    _, noise = process.communicate(timeout=20)  # the read that hangs ends by its timeout
    assert process.returncode != 0
    assert "KeyboardInterrupt" in noise
    assert client.cached("*.part")


def test_a_silent_line_is_given_up_and_asked_again(hub, client):
    hub.publish("models", NAME, FILES)
    hub.cuts["model.safetensors"] = [Cut(100_000, "hang")]
    found = client.fetch(NAME, environment={"HF_HUB_DOWNLOAD_TIMEOUT": "1"})
    assert (found.path / "model.safetensors").read_bytes() == LARGE
    assert hub.downloads("model.safetensors")[-1].status == 206


def test_a_server_that_knows_no_ranges_sends_it_all_again(hub, client):
    hub.publish("models", NAME, FILES)
    hub.ranges = False
    hub.cuts["model.safetensors"] = [Cut(100_000)]
    found = client.fetch(NAME)
    assert (found.path / "model.safetensors").read_bytes() == LARGE


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_file_that_came_changed_is_not_taken(hub, client, name):
    hub.publish("models", NAME, FILES)
    hub.broken.add(name)
    with pytest.raises(FetchError, match=rf"{name} of {NAME} at revision main came with the hash"):
        client.fetch(NAME)
    whole = [part for part in client.cached("*.part") if part.stat().st_size == len(FILES[name])]
    assert not whole
    hub.broken.clear()
    found = client.fetch(NAME)
    assert {name: (found.path / name).read_bytes() for name in found.files} == {
        "config.json": b"{}",
        "model.safetensors": LARGE,
    }


def test_a_cached_file_of_another_size_is_fetched_again(hub, client):
    commit = hub.publish("models", NAME, FILES)
    found = client.fetch(NAME, commit)
    os.truncate(found.path / "model.safetensors", 1000)
    assert (client.fetch(NAME, commit).path / "model.safetensors").read_bytes() == LARGE


def test_a_disk_that_is_too_small_is_told_before_the_download(hub, tmp_path, monkeypatch):
    file = type("File", (), {"lfs": None, "blob_id": "0" * 40, "size": 5 * 10**18, "path": "a"})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    asked = sources._Repository(NAME, "main", "model", None)
    with pytest.raises(FetchError, match=r"needs 5000000000.0 GB more and .* GB left: .*HF_HOME"):
        sources._download([file], asked, "main", print)


# --------------------------------------------------------------------------------- refused


@pytest.mark.parametrize("token", ["", "hf_good"])
def test_a_gated_model_says_how_to_get_it(hub, client, token):
    hub.publish("models", NAME, FILES)
    hub.gated.add(NAME)
    hub.tokens.add("hf_good")
    message = rf"{NAME} is gated: accept its licence on {hub.endpoint}/{NAME}, .*`hf auth login`"
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME, environment={"HF_TOKEN": token} if token else {})
    assert hub.seen[-1].status == (403 if token else 401)


def test_a_bad_token_is_told(hub, client):
    hub.publish("models", NAME, FILES)
    message = r"refuses the token .*401.*Invalid credentials.*correct HF_TOKEN"
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME, environment={"HF_TOKEN": "hf_old"})


def test_a_token_without_the_right_is_told(hub, client):
    hub.publish("models", NAME, FILES)
    hub.failures.append(Failure("resolve", 403, message="token lacks permission"))
    with pytest.raises(FetchError, match=r"The hub denies .*token lacks permission.*right to read"):
        client.fetch(NAME)


def test_a_missing_revision_is_told(hub, client):
    hub.publish("models", NAME, FILES)
    for revision in ("mian", "0" * 40):
        message = rf"{NAME} has no revision {revision}: correct `revision` in config/model/"
        with pytest.raises(FetchError, match=message):
            client.fetch(NAME, revision)


@pytest.mark.parametrize("name", ["someone/private", "not/a/name"])
def test_a_missing_repository_is_told(hub, client, name):
    hub.publish("models", "someone/private", FILES)
    hub.private.add("someone/private")
    message = rf"has no model {name}, or it is private: correct `repository` in config/model/"
    with pytest.raises(FetchError, match=message):
        client.fetch(name)


def test_the_script_ends_with_the_message_alone(hub, client, tmp_path):
    done = run_script(client, tmp_path, {"repository": "someone/else", "revision": "main"})
    assert done.returncode != 0
    [line] = done.stderr.splitlines()
    assert "FetchError: The hub has no model someone/else" in line
    assert not (tmp_path / "source.json").exists()


# ------------------------------------------------------------------------------ no network


def test_a_hub_that_is_unwell_for_a_moment_is_asked_again(hub, client):
    hub.publish("models", NAME, FILES)
    hub.failures.append(Failure("model.safetensors", 503, times=2))
    assert "model.safetensors" in client.fetch(NAME).files


def test_a_hub_that_stays_unwell_is_told_and_what_came_is_kept(hub, client):
    hub.publish("models", NAME, FILES)
    hub.cuts["model.safetensors"] = [Cut(100_000)]
    hub.failures.append(Failure("model.safetensors", 503, after=2))  # the hub, then the other host
    message = r"could not be fetched from .*503.*What has come is kept.*models=\[path"
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME)
    assert client.cached("*.part")
    hub.failures.clear()
    assert (client.fetch(NAME).path / "model.safetensors").read_bytes() == LARGE
    assert hub.downloads("model.safetensors")[-1].range is not None


def test_a_hub_that_answers_with_an_error_at_once_is_told(hub, client):
    hub.publish("models", NAME, FILES)
    hub.failures.append(Failure("/api/", 500))
    with pytest.raises(FetchError, match=r"could not be fetched from .*500"):
        client.fetch(NAME)


def test_without_a_network_the_message_says_what_to_do(hub, client):
    hub.stop()
    began = time.monotonic()
    message = r"tiny at revision main could not be fetched from http.*refused.*models=\[path/to"
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME)
    assert time.monotonic() - began < 15  # huggingface_hub's own retries take 23 s


def test_what_the_cache_has_whole_needs_no_hub(hub, client):
    commit = hub.publish("models", NAME, FILES)
    found = client.fetch(NAME)
    asked = len(hub.seen)
    assert client.fetch(NAME, commit) == Fetched(found.path, [])
    assert len(hub.seen) == asked
    hub.failures.append(Failure("/api/", 500))
    assert client.fetch(NAME).path == found.path
    hub.stop()
    assert client.fetch(NAME, commit).path == found.path
    assert client.fetch(NAME).path == found.path  # of a branch, what it was when last seen
    for offline in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        assert client.fetch(NAME, environment={offline: "1"}).path == found.path


def test_what_the_cache_has_in_part_does_not_pass_for_a_model(hub, client):
    commit = hub.publish("models", NAME, FILES)
    found = client.fetch(NAME, commit)
    (found.path / "model.safetensors").resolve().unlink()
    message = rf"{commit} is not whole in {client.home}/hub, and HF_HUB_OFFLINE .*unset .*models="
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME, commit, environment={"HF_HUB_OFFLINE": "1"})


def test_a_cache_without_a_listing_is_completed_if_it_can_be(hub, client):
    commit = hub.publish("models", NAME, FILES)
    snapshot = client.home / "hub/models--someone--tiny/snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    offline = {"HF_HUB_OFFLINE": "1"}
    with pytest.raises(FetchError, match="is not whole"):
        client.fetch(NAME, commit, environment=offline)
    (snapshot / "model-00001-of-00002.safetensors").write_bytes(b"x")  # somebody put it there
    assert client.fetch(NAME, commit, environment=offline).path == snapshot
    assert "model.safetensors" in client.fetch(NAME, commit).files


# -------------------------------------------------------------------------------- progress


def test_the_lines_tell_how_much_has_come_and_how_long_it_takes(hub, client):
    hub.publish("models", NAME, FILES)
    lines = client.fetch(NAME, seconds=0).lines
    assert lines[0] == "Downloading someone/tiny: 0.0 kB of 300.0 kB"
    assert len(lines) > 2
    shape = re.compile(r"Downloading someone/tiny: (\d+\.\d) kB of 300\.0 kB, \d+ (s|min) left")
    came = [float(shape.fullmatch(line)[1]) for line in lines[1:]]
    assert came == sorted(came)
    assert came[-1] == 300.0


def test_the_unit_suits_the_download():
    gigabytes = [sources._bytes(count, 6_400_000_000) for count in (0, 1_234_567_890)]
    assert gigabytes == ["0.0 GB", "1.2 GB"]
    assert sources._bytes(500_000_000, 500_000_000) == "0.5 GB"
    assert sources._bytes(3, 3) == "0.0 kB"
