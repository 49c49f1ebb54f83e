"""What one job measures, as its shard's path says it: the key columns all its rows share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class Wildcards(Protocol):
    """Snakemake's wildcards, or anything with these names."""

    model: str
    scheme: str
    short_rows: str
    role: str
    blocks: str


@dataclass(frozen=True)
class Shard:
    """Model x scheme x role x slice of blocks."""

    model: str
    scheme: str
    short_rows: str | None
    role: str
    blocks: range
    preset: str | None = None

    @staticmethod
    def of(wildcards: Wildcards) -> "Shard":
        """From the wildcards of a rule; `blocks` reads like 000-007, both ends included."""
        first, last = map(int, wildcards.blocks.split("-"))
        return Shard(
            model=wildcards.model,
            scheme=wildcards.scheme,
            short_rows=None if wildcards.short_rows == "none" else wildcards.short_rows,
            role=wildcards.role,
            blocks=range(first, last + 1),
            preset=getattr(wildcards, "preset", None),
        )

    def key(self, block: int) -> dict[str, Any]:
        """The key columns of one block's rows; the schemes of today have no seed."""
        key = {
            "model": self.model,
            "scheme": self.scheme,
            "short_rows": self.short_rows,
            "seed": None,
            "block": block,
            "role": self.role,
        }
        return key if self.preset is None else key | {"preset": self.preset}

    @contextmanager
    def naming(self, block: int) -> Iterator[None]:
        """Add model, matrix and scheme to whatever a measure complains of."""
        try:
            yield
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{self.model}, {self.role} of block {block}, scheme {self.scheme}: {error}"
            ) from error
