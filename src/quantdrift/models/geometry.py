"""The sizes a config promises: what the shapes of the weights are checked against."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_OTHER_KEYS = {
    "hidden_size": "n_embd",
    "intermediate_size": "n_inner",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
}
"""What GPT-2's config calls them."""


@dataclass(frozen=True)
class Geometry:
    """Widths and counts; shapes do not tell how heads share the rows of q, k and v."""

    blocks: int
    hidden: int
    intermediate: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_dim: int
    positions: int | None = None
    """Rows of a learned position embedding."""

    @staticmethod
    def of(config: Mapping[str, Any], defaults: Mapping[str, int]) -> "Geometry":
        """From a Hugging Face config.

        `head_dim` is hidden / heads and every head has keys of its own where nothing else is said.

        Args:
            config: of the text model.
            defaults: what transformers takes for a key that the config leaves out.

        Raises:
            ValueError: the config lacks a size, or it is no positive whole number.
        """

        def given(key: str) -> Any:
            names = (key, _OTHER_KEYS.get(key, key))
            found = [config[name] for name in names if config.get(name) is not None]
            return found[0] if found else defaults.get(key)

        def size(key: str, otherwise: int | None = None) -> int:
            value = otherwise if given(key) is None else given(key)
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"config.json: {key} is {value!r}, not a positive whole number.")
            return value

        heads, hidden = size("num_attention_heads"), size("hidden_size")
        geometry = Geometry(
            blocks=size("num_hidden_layers"),
            hidden=hidden,
            intermediate=size("intermediate_size", 4 * hidden if "n_embd" in config else None),
            vocabulary=size("vocab_size"),
            heads=heads,
            kv_heads=size("num_key_value_heads", heads),
            head_dim=size("head_dim", hidden // heads),
            positions=given("max_position_embeddings"),
        )
        if heads % geometry.kv_heads:
            raise ValueError(
                f"config.json: {heads} query heads cannot share {geometry.kv_heads} key heads."
            )
        return geometry

    def shape(self, part: str) -> tuple[int, ...]:
        """The shape of a part, (outputs, inputs) for a matrix, however it is stored.

        Raises:
            ValueError: learned positions, whose number the config does not give.
        """
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        if part == "positions" and self.positions is None:
            raise ValueError("config.json: n_positions is None, not a positive whole number.")
        outputs = {
            "q": q,
            "k": kv,
            "v": kv,
            "qkv": q + 2 * kv,
            "gate": self.intermediate,
            "up": self.intermediate,
            "gate_up": 2 * self.intermediate,
            "embed": self.vocabulary,
            "head": self.vocabulary,
            "positions": self.positions or 0,
        }
        if part in outputs:
            return (outputs[part], self.hidden)
        if part in ("o", "down"):
            return (self.hidden, q if part == "o" else self.intermediate)
        if part in ("q_norm", "k_norm"):
            return (self.head_dim,)
        if part.removesuffix("_bias") in outputs:
            return (outputs[part.removesuffix("_bias")],)
        return (self.hidden,)  # norms of the residual stream, their biases, those of o and down
