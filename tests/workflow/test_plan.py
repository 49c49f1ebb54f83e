"""What the workflow promises before it runs a job: plans, targets, speed, messages."""

import re
import shlex
import subprocess
import sys
import time

import pytest
from study import ROOT, Study

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def fresh(new_study) -> Study:
    return new_study()


def test_topoquant_is_planned_without_a_download(fresh: Study):
    done = fresh.run("--dry-run", config=["--config", "study=topoquant"])
    assert re.search(r"^weights\s+4$", done.stdout + done.stderr, re.MULTILINE)
    # 28 + 3 x 32 blocks in slices of 8 are 4 slices a model; 8 schemes and the base, 3 roles.
    assert re.search(rf"^diagrams\s+{4 * 4 * 9 * 3}$", done.stdout + done.stderr, re.MULTILINE)
    assert not (fresh.folder / "downloads").exists()


def test_planning_imports_no_torch_and_parses_in_seconds(fresh: Study):
    code = (
        "import sys, quantdrift.config, quantdrift.digest, quantdrift.models.headers;"
        "sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    began = time.process_time(), time.monotonic()
    fresh.run("--list-target-rules")
    # Far above the 3 s of an idle machine, far below what an import of torch per rule would take.
    assert time.monotonic() - began[1] < 20


def test_every_target_explains_itself(fresh: Study):
    listed = fresh.run("--list-target-rules").stdout
    explained = dict(re.findall(r"^(\w+)(?: \((.+)\))?$", listed, re.MULTILINE))
    assert {"all", "report", "topoquant_figure_2", "checks"} <= explained.keys()
    assert [name for name, words in explained.items() if not words] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["study=nowhere"], "There is no study 'nowhere'"),
        (["stduy=demo"], "not 'stduy'"),
        (["set=topology.treshold=0.7"], "treshold"),
        (["set=schemes=[llamacpp-q9_0-pure]"], "llamacpp-q9_0-pure"),
        (["set=models=[no/such/directory]"], "no/such/directory"),
        (["set=topology.threshold=3"], "topology.threshold"),
    ],
)
def test_bad_configuration_stops_before_any_job_and_names_it(fresh: Study, words, says):
    done = fresh.run("--dry-run", config=["--config", *words], check=False)
    assert done.returncode != 0
    assert says in done.stdout + done.stderr


def commands_in(text: str) -> list[str]:
    """The snakemake commands of a document's shell blocks."""
    blocks = re.findall(r"```(?:sh|bash|console)\n(.*?)```", text, re.DOTALL)
    lines = [line.strip().split("   #")[0] for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ").strip() for line in lines if "snakemake" in line.split("#")[0]]


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = [command for document in DOCUMENTS for command in commands_in(document.read_text())]


def test_documents_print_commands():
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize("command", COMMANDS)
def test_printed_command_plans(fresh: Study, command: str, tmp_path_factory):
    words = shlex.split(command)
    assert words[0].endswith("snakemake"), command
    if "--profile" in words or "path/to" in command:
        pytest.skip("needs a cluster or a model of the reader's own")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--dry-run", *words[1:]],
        cwd=fresh.folder,
        env=fresh.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
