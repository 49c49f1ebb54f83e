"""GGUF files as schemes: true types, every bit, the base's gauge, and what is refused."""

import json
import runpy
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from stored_models import base_of, converted
from tiny_models import F16, F32, logits_of, silent, tiny, write_gguf

from quantdrift.models.causal_lm import load
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.file_match import MatchError
from quantdrift.models.gauge import Gauge, regauge
from quantdrift.models.quantized_file import convert
from quantdrift.models.scheme_weights import provenance_of, scheme_weights
from quantdrift.models.stored_weights import StoredWeights
from quantdrift.quantizers.ledger import total
from quantdrift.quantizers.llamacpp import TYPES, LlamaCpp
from quantdrift.sensitivity.weight_error import weight_error

WIDE = {"hidden_size": 256, "intermediate_size": 512}
MIX = {
    "token_embd*": "q6_k",
    "blk.0.ffn_down*": "q6_k",
    "*attn_v.*": "q5_k",
    "*attn_qkv*": "q5_k",
    "blk.1.attn_output*": "iq4_xs",
    "blk.2.ffn_up*": "q4_1",
    "blk.*": "q4_k",
}
FAMILIES = ("llama", "qwen2", "qwen3", "gemma3", "phi3")


def wide(family: str, **changes: Any) -> Any:
    head_dim = {"head_dim": 64} if family in ("qwen3", "gemma3") else {}
    return tiny(family, **WIDE | head_dim | changes)


def every(base: Checkpoint) -> list[tuple[str, int]]:
    return [(role, block) for block in range(base.geometry.blocks) for role in base.roles]


def expected_type(base: Checkpoint, role: str, block: int) -> str:
    """By the mix; fused rows have the type of their tensor."""
    names = base.layout.gguf_names
    name = names[str(base.layout.part_of(role))].format(b=block)
    return next(kind for pattern, kind in MIX.items() if fnmatch(name, pattern))


# ------------------------------------------------------------------------ types, bits, values


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mixed_file_holds_what_its_types_make_of_the_base(family, tmp_path):
    model = wide(family)
    base = base_of(model, tmp_path)
    path = write_gguf(model, tmp_path / "mix.gguf", mix=MIX)
    stored = converted(path, base)
    for role, block in every(base):
        kind = expected_type(base, role, block)
        ours = LlamaCpp(kind, "error")(base.matrix(role, block))
        found = stored.quantized(role, block)
        assert found.type == kind
        np.testing.assert_array_equal(found.weight, ours.weight)
        assert found.ledger == ours.ledger
    assert stored.about["outside"] == {"embed": "q6_k", "head": "f32"}
    assert stored.about["format"] == "gguf"


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_the_ledger_counts_the_bytes_of_the_file(family, tmp_path):
    model = wide(family)
    base = base_of(model, tmp_path)
    path = write_gguf(model, tmp_path / "mix.gguf", mix=MIX)
    stored = converted(path, base)
    in_blocks = [
        t for t in gguf.GGUFReader(path).tensors if ".attn_" in t.name or ".ffn_" in t.name
    ]
    n_bytes = sum(int(t.n_bytes) for t in in_blocks if "norm" not in t.name)
    ledger = total(stored.quantized(role, block).ledger for role, block in every(base))
    assert ledger.bits_full == 8 * n_bytes


@pytest.mark.parametrize("family", ["llama", "gemma3", "phi3"])
def test_a_regauged_base_meets_its_file_in_its_own_gauge(family, tmp_path):
    model = wide(family)
    base = base_of(model, tmp_path, seed=3)
    plain = Gauge(None, base.geometry)
    home = Gauge(3, base.geometry)
    path = write_gguf(model, tmp_path / "mix.gguf", mix=MIX)
    stored = converted(path, base, seed=3)
    for role, block in every(base):
        came = regauge(base.matrix(role, block), role, block, home, plain)
        rounded = LlamaCpp(expected_type(base, role, block))(came).weight
        here = stored.quantized(role, block).weight
        back = regauge(here, role, block, home, plain)
        # Scales are rounded from weights that moved there and back: a few may land elsewhere.
        assert weight_error(rounded, back).relative_frobenius < 0.01


@pytest.mark.parametrize("family", FAMILIES)
def test_the_running_model_is_the_file(family, tmp_path):
    # Embedding, head and norms are float32 in this file, so nothing but the matrices differs.
    model = wide(family)
    path = write_gguf(model, tmp_path / "mix.gguf", mix={"blk.*": "q8_0"})
    plain = base_of(model, tmp_path / "a")
    in_file = converted(path, plain)
    base = base_of(model, tmp_path / "b", seed=1)
    quantize = scheme_weights({}, None, converted(path, base, seed=1).directory)

    def read(role: str, block: int, weight: np.ndarray) -> np.ndarray:
        return quantize(role, block, weight).weight

    cpu: Any = {"device": torch.device("cpu"), "dtype": torch.float32}
    there = load(plain, change=lambda r, b, w: in_file.quantized(r, b).weight, **cpu)
    here = load(base, change=read, **cpu)
    reference = logits_of(there)
    assert (logits_of(here) - reference).abs().max() < 1e-4 * reference.std()
    assert (logits_of(model) - reference).abs().max() > 1e-3 * reference.std()


def test_a_file_of_floats_is_the_base_itself(tmp_path):
    model = tiny()
    base = base_of(model, tmp_path, seed=0)
    stored = converted(write_gguf(model, tmp_path / "f32.gguf", F32), base, seed=0)
    for role, block in every(base):
        found = stored.quantized(role, block)
        np.testing.assert_array_equal(found.weight, base.matrix(role, block))
        assert (found.type, found.ledger.bpw_full, found.ledger.bpw_claimed) == ("f32", 32, 32)
    half = converted(write_gguf(model, tmp_path / "f16.gguf", F16), base, seed=0)
    assert half.quantized("q", 0).ledger.bpw_full == 16


def test_a_type_without_itemised_parts_counts_its_bytes(tmp_path):
    model = wide("llama")
    base = base_of(model, tmp_path)
    assert "tq2_0" not in TYPES
    path = write_gguf(model, tmp_path / "x.gguf", gguf.GGMLQuantizationType.TQ2_0)
    found = converted(path, base).quantized("q", 0)
    (entry,) = found.ledger.entries
    assert (found.type, entry.name) == ("tq2_0", "blocks")
    assert found.ledger.bpw_full == 66 * 8 / 256  # 64 bytes of indices, a float16
    assert found.ledger.bpw_claimed == 2


@pytest.mark.demo_model
def test_the_demo_models_own_file_has_no_error(demo_gguf, demo_regauged, tmp_path):
    base = Checkpoint(demo_regauged.directory)
    manifest = convert(demo_gguf, base, tmp_path / "s", regauge_seed=0, progress=silent)
    stored = StoredWeights(tmp_path / "s")
    for role, block in every(base)[::17]:
        np.testing.assert_array_equal(
            stored.quantized(role, block).weight, base.matrix(role, block)
        )
    types = {one["type"] for one in manifest["matrices"]}
    assert "q4_1" in types
    assert manifest["outside"]["head"] is None


# ----------------------------------------------------------------------------------- refusals


@pytest.fixture
def base(tmp_path) -> Checkpoint:
    return base_of(tiny(), tmp_path, seed=0)


def refused(path: Path, base: Checkpoint, match: str, kind: type = MatchError) -> None:
    with pytest.raises(kind, match=f"(?s){match}"):
        converted(path, base, seed=0)
    assert not base.directory.with_name("stored").exists()
    assert not base.directory.with_name(".stored.part").exists()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"num_hidden_layers": 2}, r"has blocks 2, its base base 3: give the file of this base"),
        ({"num_hidden_layers": 4}, r"has blocks 4, its base base 3"),
        ({"hidden_size": 128}, r"has hidden 128, its base base 64"),
        ({"intermediate_size": 64}, r"has intermediate 64, its base base 96"),
        ({"vocab_size": 160}, r"has vocabulary 160, its base base 128"),
    ],
)
def test_another_size_is_refused_by_its_number(base, tmp_path, changes, match):
    refused(write_gguf(tiny(**changes), tmp_path / "other.gguf"), base, match)


@pytest.mark.parametrize(("heads", "kv"), [(8, 2), (4, 4)])
def test_other_heads_are_refused(base, tmp_path, heads, kv):
    def metadata(writer):
        writer.add_head_count(heads)
        writer.add_head_count_kv(kv)

    left_out = ["head_count", "head_count_kv", "dimension_count"]
    path = write_gguf(tiny(), tmp_path / "x.gguf", metadata=metadata, left_out=left_out)
    refused(path, base, r"has (kv_)?heads \d, its base base \d")


def test_another_architecture_is_refused(base, tmp_path):
    path = write_gguf(tiny("qwen2"), tmp_path / "qwen.gguf")
    refused(path, base, r"architecture qwen2, its base base of llama: give the file of this base")


def test_an_unknown_architecture_is_refused(base, tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "bert.gguf", "bert")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    refused(tmp_path / "bert.gguf", base, r"file of base \(llama\).*'bert' is not supported")


def test_a_missing_tensor_is_named(base, tmp_path):
    path = write_gguf(tiny(), tmp_path / "x.gguf", left_out=["blk.1.ffn_up.weight"])
    refused(path, base, r"lacks model.layers.1.mlp.up_proj.weight, which its base base has")


def test_a_file_cut_short_is_refused(base, tmp_path):
    path = write_gguf(tiny(), tmp_path / "x.gguf")
    path.write_bytes(path.read_bytes()[:-5000])
    refused(path, base, "cannot be read as GGUF", ValueError)


def test_another_model_of_the_same_shape_is_told_by_its_norms(base, tmp_path):
    path = write_gguf(tiny(seed=1), tmp_path / "x.gguf")
    refused(path, base, r"another model than its base base: channel \d+ of model.*norm.weight is")


def test_another_model_with_the_same_norms_is_told_by_its_weights(base, tmp_path):
    model, other = tiny(), tiny(seed=1)
    vectors = {n: v for n, v in model.state_dict().items() if v.ndim == 1}
    other.load_state_dict(vectors, strict=False)
    path = write_gguf(other, tmp_path / "x.gguf")
    refused(path, base, r"q of block 0, of 32 bits, has a relative error of 1.\d+ \(at most 0.0")


@pytest.mark.parametrize(("kind", "told"), [("q8_0", True), ("q6_k", True), ("q4_k", False)])
def test_a_fine_tune_is_told_where_its_type_is_fine_enough(kind, told, tmp_path):
    # A tenth of each projection changed, its norms did not.
    model, base = wide("llama"), base_of(wide("llama"), tmp_path, seed=0)
    for name, weight in model.named_parameters():
        if "proj" in name:
            weight.data += 0.1 * weight.std() * torch.randn_like(weight)
    path = write_gguf(model, tmp_path / "x.gguf", mix={"blk.*": kind})
    if told:
        refused(path, base, r"or a fine-tune of it: q of block 0, of [68] bits, .* error of 0.1")
    else:
        converted(path, base, seed=0)


@pytest.mark.parametrize("kind", TYPES)
def test_no_type_of_ours_is_taken_for_another_model(kind, tmp_path):
    model = wide("llama")
    base = base_of(model, tmp_path, seed=0)
    converted(write_gguf(model, tmp_path / "x.gguf", mix={"blk.*": kind}), base, seed=0)


def test_a_norm_that_moved_a_little_is_another_model(base, tmp_path):
    model = tiny()
    model.get_submodule("model.layers.2.post_attention_layernorm").weight.data[5] *= 1.001  # type: ignore[operator]
    path = write_gguf(model, tmp_path / "x.gguf")
    refused(path, base, r"channel 5 of model.layers.2.post_attention_layernorm.weight is")


def test_a_base_of_bfloat16_takes_a_file_made_from_its_float32_master(tmp_path):
    model = tiny()
    path = write_gguf(model, tmp_path / "x.gguf")
    base = base_of(tiny().to(torch.bfloat16), tmp_path)
    converted(path, base)


def test_a_run_that_dies_leaves_nothing_that_looks_finished(base, tmp_path):
    path = write_gguf(tiny(), tmp_path / "x.gguf")

    def dying(items, _total, _label):
        yield next(iter(items))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(path, base, tmp_path / "stored", regauge_seed=0, progress=dying)
    assert not (tmp_path / "stored").exists()
    assert not (tmp_path / ".stored.part").exists()


def test_of_a_hub_repository_one_gguf_file_is_taken(tmp_path):
    script = Path(__file__).parents[2] / "workflow/scripts/checkpoint.py"
    one_gguf = runpy.run_path(str(script))["one_gguf"]
    for name in ("x.Q4_K_M.gguf", "x.Q8_0.gguf", "config.json"):
        (tmp_path / name).touch()
    assert one_gguf(tmp_path, ["*Q4_K_M*"]) == tmp_path / "x.Q4_K_M.gguf"
    assert one_gguf(tmp_path, ["*.json"]) == tmp_path
    with pytest.raises(ValueError, match=r"x.Q4_K_M.gguf, x.Q8_0.gguf: a scheme is one GGUF"):
        one_gguf(tmp_path, ["*.gguf"])


# -------------------------------------------------------------------------- the door for scripts


def test_schemes_on_the_fly_and_stored_ones_go_through_one_door(base, tmp_path):
    weight = base.matrix("q", 1)
    made = scheme_weights({"q": "q4_0"}, "flat")("q", 1, weight)
    path = write_gguf(tiny(), tmp_path / "x.gguf", mix={"*": "q4_0"})
    stored = converted(path, base, seed=0)
    read = scheme_weights({}, None, str(stored.directory))("q", 1, weight)
    assert made.type == read.type == "q4_0"
    assert made.ledger == read.ledger
    assert provenance_of(None) == {}
    assert provenance_of(stored.directory) == {"weights_sha256": stored.about["sha256"]}
    with pytest.raises(ValueError, match=r"shape \(64, 64\), the base \(2, 2\)"):
        scheme_weights({}, None, stored.directory)("q", 1, np.ones((2, 2), np.float32))
    with pytest.raises(KeyError, match="no q of block 7"):
        stored.quantized("q", 7)


def test_the_hash_tells_values_and_types_apart(base, tmp_path):
    hashes = set()
    for kind in ({"*": "q4_0"}, {"*": "q8_0"}, {}):
        path = write_gguf(tiny(), tmp_path / "x.gguf", mix=kind)
        hashes.add(converted(path, base, seed=0).about["sha256"])
    again = converted(path, base, seed=0).about["sha256"]
    assert len(hashes) == 3
    assert again in hashes
    assert json.loads((tmp_path / "stored/manifest.json").read_text())["sha256"] == again
