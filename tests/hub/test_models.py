"""Models of a hub on the loopback: whole, broken, refused, missing, and without any network."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from client import Client, Fetched, answer
from huggingface_hub.errors import LocalEntryNotFoundError
from server import Cut, Failure
from transformers import LlamaConfig, LlamaForCausalLM

from quantdrift.models import hub as downloads
from quantdrift.models.checkpoint import Checkpoint, prepare
from quantdrift.models.sources import FetchError

NAME = "someone/tiny"
LARGE = np.random.default_rng(0).bytes(300_000)
FILES = {"config.json": b"{}", "model.safetensors": LARGE, "README.md": b"# Tiny"}
FIRST, SECOND = (f"model-{number:05}-of-00002.safetensors" for number in (1, 2))
SHARDS = {FIRST: LARGE[::-1], SECOND: LARGE, "config.json": b"{}"}
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


def test_another_commit_asks_only_for_what_it_changed(hub, client):
    hub.publish("models", NAME, SHARDS)
    before = client.fetch(NAME).path
    hub.publish("models", NAME, SHARDS | {"config.json": b"{ }"})
    found = client.fetch(NAME)
    assert found.path != before
    assert (found.path / SECOND).read_bytes() == LARGE
    assert found.lines == [f"Downloading {NAME}: 0.0 kB of 0.0 kB"]
    assert len(hub.downloads(FIRST)) == len(hub.downloads(SECOND)) == 1


# ---------------------------------------------------------------------------------- broken


def test_a_download_that_ends_early_goes_on_from_there(hub, client):
    hub.publish("models", NAME, FILES)
    # More breaks than huggingface_hub takes of a line on which nothing comes.
    hub.cuts["model.safetensors"] = [Cut(40_000) for _ in range(7)]
    found = client.fetch(NAME)
    assert (found.path / "model.safetensors").read_bytes() == LARGE
    starts = [one.range for one in hub.downloads("model.safetensors")]
    assert starts == [None, *(f"bytes={count}-" for count in range(40_000, 290_000, 40_000))]


def test_after_a_reset_finished_files_are_not_asked_for_again(hub, client):
    hub.publish("models", NAME, SHARDS)
    hub.cuts[SECOND] = [Cut(50_000, "reset") for _ in range(3)]
    found = client.fetch(NAME)
    assert (found.path / SECOND).read_bytes() == LARGE
    assert len(hub.downloads(FIRST)) == len(hub.downloads("config.json")) == 1
    assert len(hub.downloads(SECOND)) == 4
    begins = [line for line in found.lines if line.endswith("of 0.6 MB")]
    assert [line.split()[-5] for line in begins] == ["0.0", "0.3", "0.3", "0.3"]


def test_as_long_as_files_get_finished_it_is_tried_again(hub, client, monkeypatch):
    monkeypatch.setattr(downloads, "_PAUSES", (0,))
    hub.publish("models", NAME, SHARDS)
    hub.cuts[FIRST] = [Cut(50_000, "reset")]
    hub.cuts[SECOND] = [Cut(50_000, "reset") for _ in range(2)]
    assert client.fetch(NAME).files == set(SHARDS)


def test_a_line_that_always_breaks_is_given_up(hub, client):
    hub.publish("models", NAME, SHARDS)
    hub.cuts[SECOND] = [Cut(50_000, "reset") for _ in range(100)]
    with pytest.raises(FetchError, match="Finished files are kept, and the next run goes on"):
        client.fetch(NAME)
    asked = len(hub.downloads(SECOND))
    assert asked <= len(downloads._PAUSES) + 2  # after the first break, FIRST was finished
    hub.cuts.clear()
    client.fetch(NAME)
    assert len(hub.downloads(FIRST)) == 1
    assert len(hub.downloads(SECOND)) == asked + 1


def test_the_run_after_a_kill_asks_for_what_was_not_finished(hub, client):
    commit = hub.publish("models", NAME, SHARDS)
    hub.cuts[SECOND] = [Cut(200_000, "hang")]
    process = client.start(NAME, commit, {})
    finished = client.home / "hub/models--someone--tiny/snapshots" / commit
    deadline = time.monotonic() + 30
    while not ((finished / FIRST).exists() and hub.downloads(SECOND)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    found = client.fetch(NAME, commit)
    assert {(found.path / shard).read_bytes() for shard in SHARDS} == set(SHARDS.values())
    assert found.lines[0] == f"Downloading {NAME}: 0.0 kB of 300.0 kB"
    assert len(hub.downloads(FIRST)) == 1
    assert [one.range for one in hub.downloads(SECOND)] == [None, None]


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


def test_a_file_that_came_changed_is_not_taken(hub, client):
    hub.publish("models", NAME, SHARDS)
    hub.broken.add(SECOND)
    with pytest.raises(FetchError, match=rf"{SECOND} of {NAME} at revision main is not the file"):
        client.fetch(NAME)
    hub.broken.clear()
    found = client.fetch(NAME)
    assert (found.path / SECOND).read_bytes() == LARGE
    assert len(hub.downloads(FIRST)) == 1


def test_a_cached_file_of_another_size_is_fetched_again(hub, client):
    commit = hub.publish("models", NAME, FILES)
    found = client.fetch(NAME, commit)
    os.truncate(found.path / "model.safetensors", 1000)
    assert (client.fetch(NAME, commit).path / "model.safetensors").read_bytes() == LARGE


def test_a_disk_that_is_too_small_is_told_before_the_download(hub, client, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=200_000))
    hub.publish("models", NAME, FILES)
    with pytest.raises(
        FetchError, match=r"needs 300.0 kB more and .* has 200.0 kB left: .*HF_HOME"
    ):
        client.fetch(NAME)
    assert not hub.downloads("model.safetensors")


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (RuntimeError("xet: the storage did not answer"), len(downloads._PAUSES) + 1),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
    ],
)
def test_an_error_of_xet_is_tried_again_and_a_full_disk_is_not(
    hub, client, monkeypatch, error, times
):
    tries = []

    def failing(*_, local_files_only=False, **__):
        if local_files_only:
            raise LocalEntryNotFoundError("nothing is here")
        tries.append(error)
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", failing)
    hub.publish("models", NAME, FILES)
    with pytest.raises(FetchError, match=rf"could not be fetched .*{error}".replace("[", r"\[")):
        client.fetch(NAME)
    assert len(tries) == times


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
    assert len([one for one in hub.seen if one.path.endswith("model.safetensors")]) == 1


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


@pytest.mark.parametrize("place", ["/resolve/", "/cdn/"])
def test_a_hub_that_is_unwell_for_a_moment_is_asked_again(hub, client, place):
    hub.publish("models", NAME, FILES)
    hub.failures.append(Failure(place, 503, times=2))
    assert "model.safetensors" in client.fetch(NAME).files


@pytest.mark.parametrize("place", ["/resolve/", "/cdn/"])
def test_a_hub_that_stays_unwell_is_told(hub, client, place):
    hub.publish("models", NAME, FILES)
    hub.failures.append(Failure(place, 503))
    with pytest.raises(FetchError, match=r"could not be fetched from .*503") as caught:
        client.fetch(NAME)
    assert "models=[path" in str(caught.value)
    assert "Signature" not in str(caught.value)


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
