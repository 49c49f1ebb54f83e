"""Weight error and bits of one role's matrices under one scheme."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from quantdrift import job
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.scheme_weights import SchemeWeights, provenance_of, scheme_weights
from quantdrift.quantizers.ledger import Quantized
from quantdrift.sensitivity.weight_error import WeightError, weight_error
from quantdrift.tables.io import provenance, write
from quantdrift.tables.shard import Shard
from quantdrift.tables.topology import LEDGER, WEIGHT_ERROR


def measure(
    checkpoint: Checkpoint, shard: Shard, quantize: SchemeWeights
) -> Iterator[tuple[dict[str, Any], WeightError, Quantized]]:
    for block in shard.blocks:
        with shard.naming(shard.at(block)):
            weight = checkpoint.matrix(shard.role, block)
            quantized = quantize(shard.role, block, weight)
            yield shard.key(block), weight_error(weight, quantized.weight), quantized


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    shard = Shard.of(snakemake.wildcards)
    stored = snakemake.input.stored or None
    quantize = scheme_weights({shard.role: snakemake.params.type}, shard.short_rows, stored)
    errors, bits = [], []
    measured = measure(Checkpoint(Path(snakemake.input.checkpoint)), shard, quantize)
    for key, error, quantized in job.progress(measured, len(shard.blocks), "Weight error"):
        ledger = quantized.ledger
        about = {
            "type": quantized.type,
            "n_weights": ledger.n_weights,
            "bpw_claimed": ledger.bpw_claimed,
            "bpw_full": ledger.bpw_full,
        }
        errors.append(key | asdict(error) | about)
        bits += [key | {"entry": entry.name, "bits": entry.bits} for entry in ledger.entries]
    made = job.provenance(
        model_sha256=provenance(Path(snakemake.input.tensors))["model_sha256"],
        type=snakemake.params.type,
        code=snakemake.params.code,
        **provenance_of(stored),
    )
    write(LEDGER, bits, Path(snakemake.output.ledger), made)
    write(WEIGHT_ERROR, errors, Path(snakemake.output.weight_error), made)
