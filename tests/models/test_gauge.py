import numpy as np
import pytest
import torch
from tiny_models import BLOCKS, Q4_0, logits_of, silent, tiny, weights_of, write_gguf
from transformers import AutoModelForCausalLM
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mistral.modeling_mistral import MistralRMSNorm
from transformers.models.phi3.modeling_phi3 import Phi3RMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from quantdrift.models.checkpoint import Checkpoint, prepare
from quantdrift.models.families import LAYOUTS, layout_of
from quantdrift.models.gauge import Gauge, regauge_stored
from quantdrift.models.layouts import Place
from quantdrift.quantizers.llamacpp import LlamaCpp
from quantdrift.sensitivity.weight_error import weight_error

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma3", "phi3")
UNTOUCHED = {"embed", "head", "final_norm", "q_bias", "k_bias", "q_norm", "k_norm"} | {
    "attention_post_norm",
    "mlp_post_norm",
}
PARTS = {
    "llama": ("q", "k", "v", "gate"),
    "qwen2": ("v_bias",),
    "gemma3": ("v", "up"),
    "phi3": ("qkv", "gate_up"),
}


@pytest.fixture
def float64_norms(monkeypatch):
    """transformers takes the norms in float32, whatever the model is in."""

    def forward(self, x):
        mean_square = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(mean_square + self.variance_epsilon))

    def gemma3_forward(self, x):
        return self._norm(x) * (1 + self.weight)

    for norm in (LlamaRMSNorm, MistralRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm, Phi3RMSNorm):
        monkeypatch.setattr(norm, "forward", forward)
    monkeypatch.setattr(Gemma3RMSNorm, "forward", gemma3_forward)


def moved(weights, config, old, new, left_out=()):
    """All weights of a model in another gauge."""
    layout = layout_of(config.to_dict())
    geometry = layout.geometry(config.to_dict())
    gauges = Gauge(old, geometry), Gauge(new, geometry)
    result = {}
    for name, values in weights.items():
        place = layout.place(name)
        kept = place.part in left_out
        result[name] = values if kept else regauge_stored(values, place, layout, *gauges)
    return result


def with_weights(model, weights):
    """A float64 model of the same config with these weights."""
    other = type(model)(model.config).eval().double()
    state = {name: torch.tensor(values) for name, values in weights.items()}
    _, unexpected = other.load_state_dict(state, strict=False)
    assert not unexpected
    return other


def difference(model, other):
    """The largest difference of two models' logits, in standard deviations of the logits."""
    logits = logits_of(model, 64)
    return float((logits_of(other, 64) - logits).abs().max() / logits.std())


# What the float64 arithmetic of some ten matrix products in a row may differ by.
FLOAT64_NOISE = 1e-12


@pytest.mark.usefixtures("float64_norms")
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("changes", [{}, {"head_dim": 24}, {"num_key_value_heads": 1}])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_gauge_is_the_same_function(family, changes, tied):
    if family in ("qwen2", "phi3") and "head_dim" in changes:
        changes = {"num_key_value_heads": 4}
    model = tiny(family, tie_word_embeddings=tied, **changes).double()
    weights = weights_of(model)
    other = with_weights(model, moved(weights, model.config, None, 3))
    assert difference(model, other) < FLOAT64_NOISE


@pytest.mark.usefixtures("float64_norms")
@pytest.mark.parametrize(
    ("family", "part"),
    [(family, part) for family in FAMILIES for part in ("attention_norm", "mlp_norm", "o", "down")]
    + [(family, part) for family, parts in PARTS.items() for part in parts],
)
def test_without_one_part_it_is_another_function(family, part):
    # The control: the test above would see a part that is forgotten.
    model = tiny(family).double()
    weights = moved(weights_of(model), model.config, None, 3, left_out=[part])
    assert difference(model, with_weights(model, weights)) > 1e-2


@pytest.mark.usefixtures("float64_norms")
@pytest.mark.parametrize("family", FAMILIES)
def test_heads_are_shared_in_the_order_of_transformers(family):
    # The control for grouped-query attention: o scaled in the order k0 k1 k0 k1, not k0 k0 k1 k1.
    model = tiny(family).double()
    weights = weights_of(model)
    config = model.config.to_dict()
    gauge = Gauge(3, layout_of(config).geometry(config))
    wrong = moved(weights, model.config, None, 3)
    for b in range(BLOCKS):
        name = f"model.layers.{b}.self_attn.o_proj.weight"
        wrong[name] = weights[name] / np.tile(gauge.scale("s", b), 2)
    assert difference(model, with_weights(model, wrong)) > 1e-2


@pytest.mark.usefixtures("float64_norms")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_residual_stream_is_free_of_the_gauge(family):
    model = tiny(family).double()
    other = with_weights(model, moved(weights_of(model), model.config, None, 3))
    ids = torch.arange(2, 50)[None]
    with torch.no_grad():
        before = model(ids, output_hidden_states=True).hidden_states
        after = other(ids, output_hidden_states=True).hidden_states
    assert len(before) == BLOCKS + 1
    for stream, again in zip(before, after, strict=True):
        assert (stream - again).abs().max() / stream.std() < FLOAT64_NOISE


@pytest.mark.usefixtures("float64_norms")
@pytest.mark.parametrize("family", FAMILIES)
def test_stored_in_float32_only_rounding_is_left(tmp_path, family):
    model = tiny(family)
    prepare(
        write_gguf(model, tmp_path / "t.gguf"), tmp_path / "out", regauge_seed=3, progress=silent
    )
    single = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert difference(model, single) < 1e-4

    # In float64 arithmetic what is left is that of the stored weights: a relative 2^-24 at most.
    # Weights so disturbed at random differ as much. Both are maxima of the same kind of noise;
    # a factor of 5 between them would be no chance.
    exact = tiny(family).double()
    rng = np.random.default_rng(0)
    disturbed = {
        name: values * (1 + rng.uniform(-1, 1, values.shape) * 2**-24)
        for name, values in weights_of(exact).items()
    }
    noise = difference(exact, with_weights(exact, disturbed))
    assert noise < 1e-5
    assert difference(exact, single.double()) < 5 * noise


@pytest.mark.parametrize("family", FAMILIES)
def test_every_matrix_in_a_block_moves(family):
    model = tiny(family)
    weights = weights_of(model)
    layout = layout_of(model.config.to_dict())
    after = moved(weights, model.config, None, 3)
    for name, values in weights.items():
        if layout.place(name).part in UNTOUCHED:
            assert after[name] is values
        else:
            assert after[name].dtype == np.float32
            offset = layout.norm_offset if values.ndim == 1 else 0
            ratio = (after[name] + offset) / (values + offset)
            # A channel is scaled by 2^u, |u| <= 1/2; where two meet, by their product.
            assert 0.49 < ratio.min() < 0.9
            assert 1.1 < ratio.max() < 2.01
            assert len(np.unique(ratio.round(3))) > 10


def test_gauges_form_a_group():
    model = tiny("qwen2").double()
    weights, config = weights_of(model), model.config
    direct = moved(weights, config, None, 2)
    by_way = moved(moved(weights, config, None, 1), config, 1, 2)
    back = moved(direct, config, 2, None)
    for name in weights:
        np.testing.assert_allclose(by_way[name], direct[name], rtol=1e-14)
        np.testing.assert_allclose(back[name], weights[name], rtol=1e-14)


def test_in_float32_the_way_costs_no_more_than_its_roundings():
    model = tiny()
    weights, config = weights_of(model), model.config
    direct = moved(weights, config, None, 2)
    by_way = moved(moved(weights, config, None, 1), config, 1, 2)
    for name in weights:
        # Three roundings of at most half a unit in the last place each.
        np.testing.assert_allclose(by_way[name], direct[name], rtol=3 * 2**-24)


@pytest.mark.parametrize("seed", [None, 4])
def test_to_its_own_gauge_a_tensor_comes_back_bit_for_bit(seed):
    model = tiny()
    weights = weights_of(model)
    for name, values in moved(weights, model.config, seed, seed).items():
        assert values is weights[name]


def test_seeds_blocks_and_groups_differ_and_repeat():
    config = tiny().config.to_dict() | {"intermediate_size": 64, "head_dim": 32}
    geometry = layout_of(config).geometry(config)
    scales = {
        (seed, block, group): Gauge(seed, geometry).scale(group, block)
        for seed in (0, 1)
        for block in (0, 1)
        for group in "amst"
    }
    assert all(scale.shape == (64,) for scale in scales.values())
    assert len({scale.tobytes() for scale in scales.values()}) == len(scales)
    for (seed, block, group), scale in scales.items():
        np.testing.assert_array_equal(Gauge(seed, geometry).scale(group, block), scale)
        assert (np.abs(np.log2(scale)) <= 0.5).all()
    np.testing.assert_array_equal(Gauge(None, geometry).scale("a", 0), np.ones(64))


def test_a_part_that_the_gauge_forgot_would_be_seen():
    # Every part of every layout is either moved or known to be untouched.
    for layout in LAYOUTS:
        if not layout.regauged:
            continue
        config = tiny("llama").config.to_dict()
        geometry = layout.geometry(config)
        old, new = Gauge(None, geometry), Gauge(0, geometry)
        for part in layout.parts:
            values = np.ones(layout.stored_shape(part, geometry), np.float32)
            place = Place(part, 0 if layout.in_blocks(part) else None)
            after = regauge_stored(values, place, layout, old, new)
            assert (after is values) == (part in UNTOUCHED), part


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_only_what_the_gauge_leaves_is_on_the_lattice(tmp_path, tied):
    path = write_gguf(tiny(tie_word_embeddings=tied), tmp_path / "t.gguf", Q4_0)
    records = prepare(path, tmp_path / "out", regauge_seed=0, progress=silent)
    left = {"embed"} if tied else {"embed", "head"}
    assert {record.role for record in records if record.on_lattice} == left


@pytest.mark.demo_model
def test_the_demo_model_leaves_its_lattice(demo_as_it_came, demo_regauged):
    before = {name for name, r in demo_as_it_came.records.items() if r.on_lattice}
    assert before == {name for name, r in demo_as_it_came.records.items() if r.role}
    after = {name for name, r in demo_regauged.records.items() if r.on_lattice}
    assert after == {"model.embed_tokens.weight"}


@pytest.mark.demo_model
def test_what_the_gauge_cures(demo_as_it_came, demo_regauged):
    # Q4_K has 16 steps where Q5_0 has 32, so its error must be larger. On the lattice of Q4_1,
    # whose 16 levels a block Q4_K meets again, it is not.
    def errors(prepared, type_name):
        quantizer = LlamaCpp(type_name, "flat")
        matrices = [Checkpoint(prepared.directory).matrix("q", block) for block in (0, 14, 29)]
        return np.array([weight_error(w, quantizer(w).weight).relative_frobenius for w in matrices])

    assert (errors(demo_as_it_came, "q4_k") < errors(demo_as_it_came, "q5_0")).all()
    assert (errors(demo_regauged, "q4_k") > 1.2 * errors(demo_regauged, "q5_0")).all()
    # Q4_1 itself is all but lossless on its own lattice, and an ordinary level off it.
    assert (errors(demo_as_it_came, "q4_1") < 0.1 * errors(demo_regauged, "q4_1")).all()


@pytest.mark.demo_model
def test_the_demo_model_is_the_same_function_in_its_gauge(demo_as_it_came, demo_regauged):
    raw, gauged = (
        AutoModelForCausalLM.from_pretrained(prepared.directory)
        for prepared in (demo_as_it_came, demo_regauged)
    )
    assert difference(raw, gauged) < 1e-4
