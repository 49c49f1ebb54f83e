"""Read a GGUF file as if it were a Hugging Face checkpoint: float32 tensors, names, a config."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from jaxtyping import Float32

from .families import layout_of_gguf
from .layouts import Layout, Place, unpermute_heads

_FLOATS = ("F32", "F16", "BF16")
_ADVICE = "use the Hugging Face checkpoint instead"


@dataclass(frozen=True)
class SourceTensor:
    """One tensor on its way in."""

    name: str
    """Its Hugging Face name."""
    place: Place
    values: np.ndarray
    """float32, rows in Hugging Face's order."""
    on_lattice: bool
    """It was stored in a quantized type, so its values lie on that type's lattice."""


class GgufSource:
    """An opened GGUF file.

    Raises:
        UnsupportedArchitectureError: no layout knows the architecture, or a tensor of it.
        ValueError: the file is no GGUF file, is cut short or one part of several, lacks metadata,
            or has a rotary embedding that is not known here.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.reader = gguf.GGUFReader(path)
        except (ValueError, IndexError, KeyError, OSError) as error:
            raise ValueError(f"{path} cannot be read as GGUF ({error}); fetch it again.") from error
        self.path = path
        if (parts := int(self._field("split.count", 1))) > 1:
            raise ValueError(
                f"{path} is one of {parts} parts; merge them by `llama-gguf-split --merge` and "
                "give the merged file."
            )
        self.layout: Layout = layout_of_gguf(str(self._needed("general.architecture")))
        self.config = self._config()

    @cached_property
    def placed(self) -> dict[Place, gguf.ReaderTensor]:
        """What the file holds, block by block; what is outside the blocks comes first."""
        placed = [
            (place, tensor)
            for tensor in self.reader.tensors
            if (place := self.layout.gguf_place(tensor.name)) is not None
        ]
        return dict(sorted(placed, key=lambda pair: pair[0].order))

    def values(self, place: Place) -> Float32[np.ndarray, "..."]:
        """A tensor dequantized, its rows in Hugging Face's order.

        Raises:
            ValueError: gguf cannot read the tensor's type, or its dimensions do not fit.
        """
        tensor = self.placed[place]
        heads = {
            "q": self.config["num_attention_heads"],
            "k": self.config["num_key_value_heads"],
        }
        try:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            # GGUF lists dimensions fastest first.
            values = values.reshape(tuple(int(n) for n in reversed(tensor.shape)))
            values = np.asarray(values, dtype=np.float32)
            if self.layout.gguf_permuted and place.part in heads:
                values = unpermute_heads(values, heads[place.part])
            if place.part.endswith("norm") and self.layout.norm_offset:
                values = values - np.float32(self.layout.norm_offset)
        except (ValueError, NotImplementedError) as error:
            raise ValueError(
                f"{self.path}: {tensor.name} of type {tensor.tensor_type.name} and dimensions "
                f"{tensor.shape.tolist()} cannot be read ({error}); {_ADVICE}."
            ) from error
        return values

    def tensors(self) -> Iterator[SourceTensor]:
        """All tensors, block by block; those outside the blocks come first."""
        for place, tensor in self.placed.items():
            yield SourceTensor(
                self.layout.tensor(place.part, place.block),
                place,
                self.values(place),
                tensor.tensor_type.name not in _FLOATS,
            )

    def _field(self, key: str, default: Any = None) -> Any:
        field = self.reader.fields.get(key)
        if field is None:
            return default
        value = field.contents()
        if isinstance(value, list) and len(set(value)) == 1:  # the same for all blocks
            return value[0]
        if isinstance(value, list):
            raise ValueError(f"{self.path}: {key} differs between blocks; {_ADVICE}.")
        return value

    def _needed(self, key: str) -> Any:
        value = self._field(key)
        if value is None:
            raise ValueError(f"{self.path} lacks the metadata {key}.")
        return value

    def _config(self) -> dict[str, Any]:
        """A Hugging Face config from the file's metadata."""
        shapes = {t.name: [int(n) for n in reversed(t.shape)] for t in self.reader.tensors}
        if "token_embd.weight" not in shapes:
            raise ValueError(f"{self.path} has no token_embd.weight, so it holds no whole model.")
        heads, hidden = int(self._own("attention.head_count")), int(self._own("embedding_length"))
        head_dim = int(self._own("attention.key_length", hidden // heads))
        model_type, class_name = next(iter(self.layout.classes.items()))
        config = {
            "architectures": [class_name],
            "model_type": model_type,
            "hidden_size": hidden,
            "intermediate_size": int(self._own("feed_forward_length")),
            "num_hidden_layers": int(self._own("block_count")),
            "num_attention_heads": heads,
            "num_key_value_heads": int(self._own("attention.head_count_kv", heads)),
            "head_dim": head_dim,
            "rms_norm_eps": float(self._own("attention.layer_norm_rms_epsilon")),
            "max_position_embeddings": int(self._own("context_length")),
            "vocab_size": shapes["token_embd.weight"][0],
            "tie_word_embeddings": "output.weight" not in shapes,
            "dtype": "float32",
        }
        for name in ("bos", "eos"):
            if (token := self._field(f"tokenizer.ggml.{name}_token_id")) is not None:
                config[f"{name}_token_id"] = int(token)
        self._refuse_partial_rope(head_dim)
        if model_type == "gemma3_text":
            return config | self._gemma3(config)
        if model_type == "phi3":
            config |= self._phi3(config["max_position_embeddings"])
        theta = self._theta()
        self._refuse_rope_scaling()
        rope = {"rope_type": "default", "rope_theta": theta} | self._rope_scaling(head_dim, theta)
        return config | {"hidden_act": "silu", "rope_theta": theta, "rope_parameters": rope}

    def _own(self, key: str, *default: Any) -> Any:
        """Metadata of the architecture; needed where no default is given."""
        key = f"{self.layout.gguf_architecture}.{key}"
        return self._field(key, *default) if default else self._needed(key)

    def _theta(self, default: float = 10000.0) -> float:
        return float(self._own("rope.freq_base", default))

    def _gemma3(self, config: dict[str, Any]) -> dict[str, Any]:
        """What Gemma 3 has beyond Llama; GGUF leaves half of it to llama.cpp's code."""
        blocks, pattern = config["num_hidden_layers"], 6
        kinds = [
            "full_attention" if (block + 1) % pattern == 0 else "sliding_attention"
            for block in range(blocks)
        ]
        scaling = {"rope_type": "default"}
        if (kind := self._own("rope.scaling.type", "none")) == "linear":
            scaling = {"rope_type": "linear", "factor": float(self._own("rope.scaling.factor"))}
        elif kind != "none":
            self._refuse_rope_scaling()
        softcap = self._own("final_logit_softcapping", None)
        of_27b = blocks == 62  # as llama.cpp tells it
        return {
            "hidden_activation": "gelu_pytorch_tanh",
            "query_pre_attn_scalar": (
                config["hidden_size"] // config["num_attention_heads"]
                if of_27b
                else config["head_dim"]
            ),
            "sliding_window": int(self._own("attention.sliding_window")),
            "layer_types": kinds,
            "rope_parameters": {
                "full_attention": scaling | {"rope_theta": self._theta(1_000_000.0)},
                "sliding_attention": {
                    "rope_type": "default",
                    "rope_theta": float(self._own("rope.freq_base_swa", 10000.0)),
                },
            },
            "final_logit_softcapping": None if softcap is None else float(softcap),
        }

    def _phi3(self, positions: int) -> dict[str, Any]:
        """Plain rotary embeddings only: the factors of longrope are not read."""
        if any(tensor.name.startswith("rope_factors") for tensor in self.reader.tensors):
            raise ValueError(
                f"{self.path} scales its rotary embedding by rope_factors_long and "
                f"rope_factors_short (longrope), which is not supported in GGUF; {_ADVICE}."
            )
        return {
            "original_max_position_embeddings": positions,
            "sliding_window": int(self._own("attention.sliding_window", 0)) or None,
            "pad_token_id": self._field("tokenizer.ggml.padding_token_id"),
        }

    def _refuse_rope_scaling(self) -> None:
        """Rotary embeddings that would be read as plain ones, and so as another model."""
        scaling = self._own("rope.scaling.type", "none")
        if scaling != "none" or self._own("rope.scale_linear", 1.0) != 1.0:
            raise ValueError(
                f"{self.path} scales its rotary embedding ({self.layout.gguf_architecture}."
                f"rope.scaling.type is {scaling!r}), which is not supported in GGUF; {_ADVICE}."
            )

    def _refuse_partial_rope(self, head_dim: int) -> None:
        rotated = int(self._own("rope.dimension_count", head_dim))
        if rotated != head_dim:
            raise ValueError(
                f"{self.path} rotates {rotated} of the {head_dim} channels of a head "
                f"({self.layout.gguf_architecture}.rope.dimension_count), which is not supported; "
                f"{_ADVICE}."
            )

    def _rope_scaling(self, head_dim: int, theta: float) -> dict[str, Any]:
        """Llama 3.1's scaling, which GGUF stores as one factor a frequency (rope_freqs.weight).

        The file does not hold the four numbers that made the factors. The published models use
        low 1, high 4 and 8192 positions; that these give back the stored factors is checked.
        """
        stored = next((t for t in self.reader.tensors if t.name == "rope_freqs.weight"), None)
        if stored is None:
            return {}
        factors = np.asarray(stored.data, dtype=np.float64)
        factor, low, high, positions = float(factors.max()), 1.0, 4.0, 8192
        wavelengths = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
        smooth = np.clip((positions / wavelengths - low) / (high - low), 0, 1)
        expected = 1 / ((1 - smooth) / factor + smooth)
        if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=1e-5):
            raise ValueError(
                f"{self.path}: rope_freqs.weight is not the scaling of Llama 3.1 (low 1, high 4, "
                f"8192 positions), the only one known here; {_ADVICE}."
            )
        return {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": positions,
        }
