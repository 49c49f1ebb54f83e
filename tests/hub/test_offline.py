"""Only the scripts that download reach the hub; for all others it is switched off."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "workflow/scripts").glob("*.py"))
ONLINE = {"checkpoint.py", "dataset.py", "text.py"}

# A script imports before it starts; then something asks the hub behind quantdrift's back.
PROGRAM = """
import json, os, sys
log, imports, online = json.loads(sys.argv[1])
for name in imports:
    __import__(name)
from quantdrift import job
job.start(log, 1, **online)
names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
said = {name: os.environ.get(name) for name in names}
from huggingface_hub import HfApi
try:
    said["found"] = HfApi().repo_info("someone/tiny").id
except Exception as error:
    said["found"] = type(error).__name__
print(json.dumps(said))
"""


def after_start(client, folder, *, imports=(), environment=None, **online):
    about = json.dumps([str(folder / "a.log"), imports, online])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, about],
        env=client.environment(**(environment or {})),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("imports", [[], ["huggingface_hub.hf_api"]])
def test_a_job_does_not_reach_the_hub(hub, client, tmp_path, imports):
    hub.publish("models", "someone/tiny", {"config.json": b"{}"})
    said = after_start(client, tmp_path, imports=imports)
    assert said == {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "found": "OfflineModeIsEnabled",
    }
    assert not hub.seen


def test_a_job_that_downloads_reaches_the_hub(hub, client, tmp_path):
    hub.publish("models", "someone/tiny", {"config.json": b"{}"})
    said = after_start(client, tmp_path, online=True)
    assert said["found"] == "someone/tiny"
    assert said["HF_HUB_OFFLINE"] is None


def test_a_job_that_downloads_stays_off_where_the_user_said_so(hub, client, tmp_path):
    said = after_start(client, tmp_path, environment={"HF_HUB_OFFLINE": "1"}, online=True)
    assert said["found"] == "OfflineModeIsEnabled"
    assert not hub.seen


def test_only_the_scripts_that_download_are_online():
    def says_online(script: Path) -> bool:
        return any(
            isinstance(node, ast.keyword) and node.arg == "online"
            for node in ast.walk(ast.parse(script.read_text()))
        )

    assert {script.name for script in SCRIPTS if says_online(script)} == ONLINE
