"""Read a GGUF file as if it were a Hugging Face checkpoint: float32 tensors, names, a config."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from .layouts import Layout, Place, layout_of_gguf, unpermute_heads

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

    def tensors(self) -> Iterator[SourceTensor]:
        """All tensors, dequantized, block by block; those outside the blocks come first."""
        heads = {
            "q": self.config["num_attention_heads"],
            "k": self.config["num_key_value_heads"],
        }
        placed = [
            (place, tensor)
            for tensor in self.reader.tensors
            if (place := self.layout.gguf_place(tensor.name)) is not None
        ]
        for place, tensor in sorted(placed, key=lambda pair: pair[0].order):
            try:
                values = gguf.dequantize(tensor.data, tensor.tensor_type)
                # GGUF lists dimensions fastest first.
                values = values.reshape(tuple(int(n) for n in reversed(tensor.shape)))
                values = np.asarray(values, dtype=np.float32)
                if self.layout.gguf_permuted and place.part in heads:
                    values = unpermute_heads(values, heads[place.part])
            except (ValueError, NotImplementedError) as error:
                raise ValueError(
                    f"{self.path}: {tensor.name} of type {tensor.tensor_type.name} and dimensions "
                    f"{tensor.shape.tolist()} cannot be read ({error}); {_ADVICE}."
                ) from error
            yield SourceTensor(
                self.layout.tensor(place.part, place.block),
                place,
                values,
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
        architecture = self.layout.gguf_architecture

        def needed(key: str) -> Any:
            return self._needed(f"{architecture}.{key}")

        shapes = {t.name: [int(n) for n in reversed(t.shape)] for t in self.reader.tensors}
        if "token_embd.weight" not in shapes:
            raise ValueError(f"{self.path} has no token_embd.weight, so it holds no whole model.")
        heads, hidden = int(needed("attention.head_count")), int(needed("embedding_length"))
        head_dim = int(self._field(f"{architecture}.attention.key_length", hidden // heads))
        rope = {
            "rope_type": "default",
            "rope_theta": float(self._field(f"{architecture}.rope.freq_base", 10000.0)),
        }
        self._refuse_other_ropes(architecture, head_dim)
        rope |= self._rope_scaling(head_dim, rope["rope_theta"])
        model_type = self.layout.model_types[0]
        config = {
            "architectures": [
                {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[model_type]
            ],
            "model_type": model_type,
            "hidden_size": hidden,
            "intermediate_size": int(needed("feed_forward_length")),
            "num_hidden_layers": int(needed("block_count")),
            "num_attention_heads": heads,
            "num_key_value_heads": int(
                self._field(f"{architecture}.attention.head_count_kv", heads)
            ),
            "head_dim": head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": float(needed("attention.layer_norm_rms_epsilon")),
            "max_position_embeddings": int(needed("context_length")),
            "rope_theta": rope["rope_theta"],
            "rope_parameters": rope,
            "vocab_size": shapes["token_embd.weight"][0],
            "tie_word_embeddings": "output.weight" not in shapes,
            "dtype": "float32",
        }
        for name in ("bos", "eos"):
            if (token := self._field(f"tokenizer.ggml.{name}_token_id")) is not None:
                config[f"{name}_token_id"] = int(token)
        return config

    def _refuse_other_ropes(self, architecture: str, head_dim: int) -> None:
        """Rotary embeddings that would be read as plain ones, and so as another model."""
        scaling = self._field(f"{architecture}.rope.scaling.type", "none")
        if scaling != "none" or self._field(f"{architecture}.rope.scale_linear", 1.0) != 1.0:
            raise ValueError(
                f"{self.path} scales its rotary embedding ({architecture}.rope.scaling.type is "
                f"{scaling!r}), which is not supported in GGUF; {_ADVICE}."
            )
        rotated = int(self._field(f"{architecture}.rope.dimension_count", head_dim))
        if rotated != head_dim:
            raise ValueError(
                f"{self.path} rotates {rotated} of the {head_dim} channels of a head "
                f"({architecture}.rope.dimension_count), which is not supported; {_ADVICE}."
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
