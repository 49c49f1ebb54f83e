"""Read a GGUF file as if it were a Hugging Face checkpoint: float32 tensors, their names, a config."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from .layouts import Layout, Place, layout_of_gguf, unpermute_heads

_FLOATS = ("F64", "F32", "F16", "BF16")


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
        ValueError: the file is no GGUF file, or is cut short.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.reader = gguf.GGUFReader(path)
        except (ValueError, IndexError, OSError) as error:
            raise ValueError(f"{path} cannot be read as GGUF ({error}); fetch it again.") from error
        self.path = path
        self.layout: Layout = layout_of_gguf(str(self._field("general.architecture")))
        self.config = self._config()

    def tensors(self) -> Iterator[SourceTensor]:
        """All tensors, dequantized, in the order of the file."""
        heads = {
            "q": self.config["num_attention_heads"],
            "k": self.config["num_key_value_heads"],
        }
        for tensor in self.reader.tensors:
            place = self.layout.gguf_place(tensor.name)
            if place is None:
                continue
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            # GGUF lists dimensions fastest first.
            values = values.reshape(tuple(int(n) for n in reversed(tensor.shape)))
            values = np.asarray(values, dtype=np.float32)
            if self.layout.gguf_permuted and place.part.removesuffix("_bias") in heads:
                values = unpermute_heads(values, heads[place.part.removesuffix("_bias")])
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
        return field.contents()

    def _config(self) -> dict[str, Any]:
        """A Hugging Face config from the file's metadata."""
        architecture = self.layout.gguf_architecture

        def needed(key: str) -> Any:
            value = self._field(f"{architecture}.{key}")
            if value is None:
                raise ValueError(f"{self.path} lacks the metadata {architecture}.{key}.")
            return value

        shapes = {t.name: [int(n) for n in reversed(t.shape)] for t in self.reader.tensors}
        if "token_embd.weight" not in shapes:
            raise ValueError(f"{self.path} has no token_embd.weight; is it one part of a split file?")
        heads, hidden = int(needed("attention.head_count")), int(needed("embedding_length"))
        head_dim = int(self._field(f"{architecture}.attention.key_length", hidden // heads))
        rope: dict[str, Any] = {
            "rope_type": "default",
            "rope_theta": float(self._field(f"{architecture}.rope.freq_base", 10000.0)),
        }
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
            "rms_norm_eps": float(np.float32(needed("attention.layer_norm_rms_epsilon"))),
            "max_position_embeddings": int(needed("context_length")),
            "rope_theta": rope["rope_theta"],
            "rope_parameters": rope,
            "vocab_size": shapes["token_embd.weight"][0],
            "tie_word_embeddings": "output.weight" not in shapes,
            "torch_dtype": "float32",
        }
        for name in ("bos", "eos"):
            if (token := self._field(f"tokenizer.ggml.{name}_token_id")) is not None:
                config[f"{name}_token_id"] = int(token)
        return config

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
        if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=1e-3):
            raise ValueError(
                f"{self.path}: rope_freqs.weight is not the scaling of Llama 3.1 (low 1, high 4, "
                "8192 positions), the only one known here; use the Hugging Face checkpoint instead."
            )
        return {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": positions,
        }
