"""What one job measures, as its shard's path says it: the key columns all its rows share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

_ERRORS = (ValueError, KeyError)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A whole model under one scheme."""

    model: str
    scheme: str
    short_rows: str | None
    preset: str | None = None

    @classmethod
    def of(cls, wildcards: Any) -> Self:
        """From the wildcards of a rule; `none` stands for no short rows."""
        return cls(
            model=wildcards.model,
            scheme=wildcards.scheme,
            short_rows=None if wildcards.short_rows == "none" else wildcards.short_rows,
            preset=getattr(wildcards, "preset", None),
        )

    @property
    def is_base(self) -> bool:
        """The model as it came."""
        return self.scheme == "base"

    def run_key(self) -> dict[str, Any]:
        """The key columns of the run; the schemes of today have no seed."""
        key = {
            "model": self.model,
            "scheme": self.scheme,
            "short_rows": self.short_rows,
            "seed": None,
        }
        return key if self.preset is None else key | {"preset": self.preset}

    @contextmanager
    def naming(self, matrix: str = "") -> Iterator[None]:
        """Add the model, the scheme and what was at hand to whatever a measure complains of."""
        try:
            yield
        except _ERRORS as error:
            if getattr(error, "named", False):
                raise
            at = f", {matrix}" if matrix else ""
            complaint = ValueError(f"{self.model}{at}, scheme {self.scheme}: {error}")
            complaint.named = True  # type: ignore[attr-defined]
            raise complaint from error


@dataclass(frozen=True, kw_only=True)
class Shard(Run):
    """Model x scheme x role x slice of blocks."""

    role: str
    blocks: range

    @classmethod
    def of(cls, wildcards: Any) -> Self:
        """From the wildcards of a rule; `blocks` reads like 000-007, both ends included."""
        first, last = map(int, wildcards.blocks.split("-"))
        run = Run.of(wildcards)
        return cls(**vars(run), role=wildcards.role, blocks=range(first, last + 1))

    def key(self, block: int) -> dict[str, Any]:
        """The key columns of one block's rows."""
        return self.run_key() | {"block": block, "role": self.role}

    def at(self, block: int) -> str:
        """The matrix in words."""
        return f"{self.role} of block {block}"
