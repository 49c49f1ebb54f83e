"""Agreement of a scheme's attention with the base's, item by item, on every data set."""

from pathlib import Path
from typing import Any

from quantdrift import job
from quantdrift.behaviour.agreement import compare
from quantdrift.tables.behaviour import AGREEMENT, ATTENTION
from quantdrift.tables.io import provenance, read_rows, write

SAME = ("dtype", "device", "n_items", "item_seed", "top", "heads", "bos_token", "model_sha256")


def require_same(base: dict[str, Any], quantized: dict[str, Any], where: str) -> None:
    """Both runs must have been made alike."""
    for name in SAME:
        if base.get(name) != quantized.get(name):
            raise ValueError(
                f"{where}: the base was run with {name}={base.get(name)}, the scheme with "
                f"{quantized.get(name)}. Fix behaviour.device and behaviour.dtype, or delete the "
                "older shard and run again."
            )


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given = snakemake.input
    for base, quantized, output in zip(given.base, given.quantized, snakemake.output, strict=True):
        made = provenance(Path(quantized))
        require_same(provenance(Path(base)), made, quantized)
        rows = list(
            compare(
                read_rows(ATTENTION, Path(base)),
                read_rows(ATTENTION, Path(quantized)),
                snakemake.params.top,
            )
        )
        job.log.info(
            "%s: mean IoU %.4f over %d rows",
            rows[0]["dataset"],
            sum(row["iou"] for row in rows) / len(rows),
            len(rows),
        )
        write(AGREEMENT, rows, Path(output), made | {"code": snakemake.params.code})
