"""The items of one data set: from this project, from a local folder, or from the hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantdrift import job
from quantdrift.behaviour.items import items
from quantdrift.data.rows import file_rows, matching, own_rows
from quantdrift.models.hub import fetch_hub
from quantdrift.tables.behaviour import ITEMS
from quantdrift.tables.io import write


def obtain(source: Mapping[str, Any], local: Path | None) -> tuple[list[dict[str, Any]], str]:
    """The rows of a data set, and the name of where they come from."""
    if source["kind"] == "own":
        return own_rows(source["name"]), f"our own {source['name']}"
    if local is not None:
        return file_rows(local), str(local)
    snapshot = fetch_hub(
        repository=source["repository"],
        revision=source["revision"],
        repo_type="dataset",
        files=source["files"],
        progress=job.say,
    )
    files = matching(snapshot, source["files"])
    return [row for file in files for row in file_rows(file)], source["repository"]


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads, online=True)
    params = snakemake.params
    local = Path(snakemake.input[0]) if snakemake.input else None
    rows, where = obtain(params.source, local)
    found = items(params.schema, rows, where)
    job.log.info("%d items from %s", len(found), where)
    write(
        ITEMS,
        [
            {
                "dataset": snakemake.wildcards.dataset,
                "item": item.id,
                "number": number,
                "prompt": item.prompt,
                "contexts": list(item.contexts),
                "continuations": list(item.continuations),
                "answer": item.answer,
            }
            for number, item in enumerate(found)
        ],
        Path(snakemake.output[0]),
        job.provenance(source=dict(params.source), schema=params.schema, code=params.code),
    )
