from typing import Any

snakemake: Any
