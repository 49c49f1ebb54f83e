"""GPTQ and AWQ checkpoints of tiny models, packed as AutoGPTQ and AutoAWQ pack them.

The packers here follow `QuantLinear.pack` and `WQLinear_GEMM.from_linear`: torch integers, shifted
into place one by one. Nothing of quantdrift is used.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

GROUP = 32


class Layer(NamedTuple):
    """A linear layer in integers: (outputs, inputs), (outputs, groups), (inputs,)."""

    integers: torch.Tensor
    zeros: torch.Tensor
    scales: torch.Tensor
    groups: torch.Tensor

    @property
    def weight(self) -> torch.Tensor:
        """What the layer multiplies by, in float32."""
        taken = self.groups.long()
        return (self.integers - self.zeros[:, taken]).float() * self.scales.float()[:, taken]


def rounded(weight: torch.Tensor, bits: int, *, sym: bool, groups: torch.Tensor) -> Layer:
    """Round to nearest: one scale and zero a row and group, in float16."""
    top = 2**bits - 1
    scales, zeros = [], []
    for group in range(int(groups.max()) + 1):
        part = weight[:, groups == group]
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        if sym:
            high = torch.maximum(-low, high)
            low = -high
        scale = ((high - low) / top).half()
        zero = torch.full_like(low, (top + 1) // 2) if sym else torch.round(-low / scale.float())
        scales.append(scale)
        zeros.append(zero.clamp(0, top).int())
    scale, zero = torch.stack(scales, 1), torch.stack(zeros, 1)
    taken = groups.long()
    integers = torch.round(weight / scale.float()[:, taken]) + zero[:, taken]
    return Layer(integers.clamp(0, top).int(), zero, scale, groups)


def stacked(integers: torch.Tensor, bits: int) -> torch.Tensor:
    """(n, columns) integers to (n * bits / 32, columns) words."""
    numbers = integers.to(torch.int64)
    words = []
    if bits == 3:
        for x in numbers.split(32):
            first = sum(x[j] << (3 * j) for j in range(10)) | ((x[10] & 3) << 30)
            second = (x[10] >> 2) | sum(x[11 + j] << (3 * j + 1) for j in range(10))
            third = (x[21] >> 1) | sum(x[22 + j] << (3 * j + 2) for j in range(10))
            words += [first, second | ((x[21] & 1) << 31), third]
    else:
        for x in numbers.split(32 // bits):
            words.append(sum(row << (bits * j) for j, row in enumerate(x)))
    packed = torch.stack([torch.as_tensor(word) for word in words])
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


def gptq_tensors(layer: Layer, bits: int, *, v2: bool) -> dict[str, torch.Tensor]:
    """The four tensors of a GPTQ layer; the first format stores zero - 1."""
    zeros = layer.zeros if v2 else (layer.zeros - 1) & (2**bits - 1)
    return {
        "qweight": stacked(layer.integers.T, bits),
        "qzeros": stacked(zeros, bits).T.contiguous(),
        "scales": layer.scales.T.contiguous(),
        "g_idx": layer.groups.int(),
    }


def awq_words(integers: torch.Tensor) -> torch.Tensor:
    """(rows, n) integers to (rows, n / 8) words, in AWQ's order."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    columns = []
    for start in range(0, integers.shape[1], 8):
        word = torch.zeros(len(integers), dtype=torch.int32)
        for place, which in enumerate(order):
            word |= integers[:, start + which].to(torch.int32) << (4 * place)
        columns.append(word)
    return torch.stack(columns, 1)


def awq_tensors(layer: Layer) -> dict[str, torch.Tensor]:
    """The three tensors of an AWQ layer."""
    return {
        "qweight": awq_words(layer.integers.T),
        "qzeros": awq_words(layer.zeros.T),
        "scales": layer.scales.T.contiguous(),
    }


def linear_layers(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """(outputs, inputs) of the linear layers of the blocks, by module name."""
    return {
        name: module.weight.data.T if isinstance(module, Conv1D) else module.weight.data
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D)
        and "head" not in name
        and "embed" not in name
    }


def put(model: PreTrainedModel, layers: dict[str, torch.Tensor]) -> PreTrainedModel:
    """The model with other linear layers in it."""
    for name, weight in layers.items():
        module: Any = model.get_submodule(name)
        module.weight.data = (weight.T if isinstance(module, Conv1D) else weight).clone()
    return model


def save_packed(
    model: PreTrainedModel,
    directory: Path,
    packed: dict[str, dict[str, torch.Tensor]],
    about: dict[str, Any],
    more: dict[str, torch.Tensor] | None = None,
) -> Path:
    """A checkpoint with packed layers; all else is float16."""
    model.save_pretrained(directory)
    tensors = {
        name: value.half()
        for name, value in load_file(directory / "model.safetensors").items()
        if name.rpartition(".")[0] not in packed or name.endswith(".bias")
    }
    for name, parts in packed.items():
        tensors |= {f"{name}.{what}": value.contiguous() for what, value in parts.items()}
    save_file(tensors | (more or {}), directory / "model.safetensors")
    config = json.loads(model.config.to_json_string()) | {"quantization_config": about}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def save_gptq(
    model: PreTrainedModel,
    directory: Path,
    bits: int = 4,
    *,
    sym: bool = True,
    desc_act: bool = False,
    v2: bool = False,
    **about: Any,
) -> dict[str, torch.Tensor]:
    """Write a GPTQ checkpoint; returns what its linear layers multiply by."""
    generator = torch.Generator().manual_seed(0)
    packed, weights = {}, {}
    for name, weight in linear_layers(model).items():
        groups = torch.arange(weight.shape[1]) // GROUP
        if desc_act:
            groups = groups[torch.randperm(len(groups), generator=generator)]
        layer = rounded(weight, bits, sym=sym, groups=groups)
        packed[name] = gptq_tensors(layer, bits, v2=v2)
        weights[name] = layer.weight
    stated = {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": GROUP,
        "sym": sym,
        "desc_act": desc_act,
        "checkpoint_format": "gptq_v2" if v2 else "gptq",
    }
    save_packed(model, directory, packed, stated | about)
    return weights
