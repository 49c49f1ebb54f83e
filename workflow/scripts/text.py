"""The text of one protocol: from this project, from a local folder, or from the hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantdrift import job
from quantdrift.data.rows import matching
from quantdrift.data.texts import documents, own_text
from quantdrift.models.hub import fetch_hub
from quantdrift.tables.io import write
from quantdrift.tables.text import TEXTS


def obtain(source: Mapping[str, Any], field: str, local: Path | None) -> list[str]:
    """The documents of a protocol."""
    if source["kind"] == "own":
        return own_text(source["name"])
    if local is not None:
        return documents(local, field)
    snapshot = fetch_hub(
        repository=source["repository"],
        revision=source["revision"],
        repo_type="dataset",
        files=source["files"],
        progress=job.say,
    )
    return [text for file in matching(snapshot, source["files"]) for text in documents(file, field)]


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads, online=True)
    params = snakemake.params
    local = Path(snakemake.input[0]) if snakemake.input else None
    texts = obtain(params.source, params.field, local)
    job.log.info("%d documents", len(texts))
    write(
        TEXTS,
        [
            {"protocol": snakemake.wildcards.protocol, "number": number, "text": text}
            for number, text in enumerate(texts)
        ],
        Path(snakemake.output[0]),
        job.provenance(source=dict(params.source), field=params.field, code=params.code),
    )
