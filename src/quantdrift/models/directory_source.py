"""Read a published Hugging Face directory: which files are the model, and what they call it.

A multimodal checkpoint (its config has a `text_config`) is read as its language model alone: the
text model's config, its tensors under the names that they have in a text-only checkpoint
(`language_model.model.layers...` becomes `model.layers...`); vision tensors are left out.
"""

import json
import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import safetensors_file
from .families import layout_of

# Beside the weights, what a Hugging Face directory needs to be loaded elsewhere.
_SMALL_FILES = (
    "tokenizer",
    "special_tokens",
    "added_tokens",
    "vocab",
    "merges",
    "chat_template",
    "generation_config",
)
_SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

_TEXT_PREFIXES = {
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "model.language_model.": "model.",
}
_OTHER_MODALITIES = tuple(
    prefix + module
    for prefix in ("", "model.")
    for module in ("vision_tower.", "vision_model.", "audio_tower.", "multi_modal_projector.")
)
# What multimodal configs say once, outside the text model's part.
_SHARED_KEYS = (
    "tie_word_embeddings",
    "dtype",
    "torch_dtype",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
)


class DirectorySource:
    """A Hugging Face directory as it was published.

    Raises:
        UnsupportedArchitectureError: no layout knows the architecture.
        ValueError: there is no readable config, the checkpoint is quantized (unless `quantized`
            allows it), or its index names a file that is not there.
    """

    def __init__(self, path: Path, *, quantized: bool = False) -> None:
        if not (path / "config.json").exists():
            raise ValueError(f"{path} has no config.json, so it is no Hugging Face directory.")
        self.path = path
        whole = read_json(path / "config.json")
        text = whole.get("text_config", whole)
        self.multimodal = "text_config" in whole
        about = whole.get("quantization_config") or text.get("quantization_config")
        if about and not quantized:
            raise ValueError(
                f"{path} is already quantized ({about.get('quant_method')}); "
                "give the unquantized checkpoint as the base, and this one under `files`."
            )
        self.quantization: dict[str, Any] = about or {}
        self.layout = layout_of(text)
        self.config = self._text_config(whole) if self.multimodal else whole
        self.files = self._weight_files()

    def write_small_files(self, directory: Path) -> None:
        """The config and, where the source has one, the tokenizer."""
        for file in self.path.iterdir():
            if file.name.startswith(_SMALL_FILES):
                shutil.copyfile(file, directory / file.name)
        if self.multimodal:
            (directory / "config.json").write_text(json.dumps(self.config, indent=1))
        else:
            shutil.copyfile(self.path / "config.json", directory / "config.json")

    def spelled(self, tensor: str) -> str | None:
        """The name of a tensor in a text-only checkpoint; None where it has none."""
        if self.multimodal:
            if tensor.startswith(_OTHER_MODALITIES):
                return None
            for prefix, instead in _TEXT_PREFIXES.items():
                if tensor.startswith(prefix):
                    return instead + tensor.removeprefix(prefix)
        return self.layout.spelled(tensor)

    def convert_pickles(self, directory: Path, progress: Any) -> list[Path]:
        """PyTorch's own files, one at a time, to safetensors of the same dtype."""
        import torch
        from safetensors.torch import save_file

        files = sorted(self.path.glob("pytorch_model*.bin"))
        if not files:
            raise ValueError(f"{self.path} holds neither *.safetensors nor pytorch_model*.bin.")
        converted = []
        for file in progress(files, len(files), "Converting pytorch_model files"):
            try:
                # A file in PyTorch's oldest format cannot be mapped and is read whole.
                loaded = torch.load(file, "cpu", weights_only=True, mmap=_is_zip(file))
            except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
                raise ValueError(f"{file} cannot be read ({error}); fetch it again.") from error
            kept, storages = {}, set()
            for stored_name, tensor in loaded.items():
                name = self.spelled(stored_name)
                if name is not None and self.layout.place(name) is not None:
                    storage = tensor.untyped_storage().data_ptr()
                    shared = storage in storages  # as a tied head is; safetensors store it twice
                    storages.add(storage)
                    kept[name] = tensor.clone() if shared else tensor.contiguous()
            converted.append(directory / f"{file.stem}.safetensors")
            save_file(kept, converted[-1], metadata={"format": "pt"})
        return converted

    def _text_config(self, whole: dict[str, Any]) -> dict[str, Any]:
        text = whole["text_config"]
        shared = {key: whole[key] for key in _SHARED_KEYS if key in whole}
        if "torch_dtype" in text or "dtype" in text:
            shared = {key: value for key, value in shared.items() if "dtype" not in key}
        return shared | text | {"architectures": [self.layout.classes[text["model_type"]]]}

    def _weight_files(self) -> list[Path]:
        """The safetensors of the model; others may lie beside them (adapters, originals)."""
        if (self.path / _SINGLE).exists():
            return [self.path / _SINGLE]
        index = self.path / INDEX
        if not index.exists():
            return sorted(self.path.glob("*.safetensors"))
        try:
            names = sorted(set(read_json(index)["weight_map"].values()))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{index} has no weight_map.") from error
        for name in names:
            if not (self.path / name).exists():
                raise ValueError(
                    f"{self.path} lacks {name}, which its index names; fetch it again."
                )
        return [self.path / name for name in names]


def entries_of(files: Iterable[Path]) -> dict[str, safetensors_file.Entry]:
    """The tensors of several safetensors files, by name.

    Raises:
        ValueError: a file is damaged, or two hold the same tensor.
    """
    found: dict[str, safetensors_file.Entry] = {}
    for file in files:
        for name, entry in safetensors_file.entries(file).items():
            if name in found:
                raise ValueError(f"{name} is both in {found[name].file.name} and in {file.name}.")
            found[name] = entry
    return found


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: the file holds none.
    """
    try:
        content = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is no JSON ({error}); fetch it again.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds no JSON object; fetch it again.")
    return content


def write_respelled(file: Path, tensors: dict[str, safetensors_file.Entry]) -> None:
    """One safetensors file of tensors that lie in others, byte for byte, under new names."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, entry in tensors.items():
        offsets = [at, at := at + entry.n_bytes]
        header[name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": offsets}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for entry in tensors.values():
            stream.write(entry.raw().data)


def _is_zip(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(4) == b"PK\x03\x04"
