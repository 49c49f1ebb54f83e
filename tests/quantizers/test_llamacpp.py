"""llama.cpp's types: the bytes that others write too, and a ledger that counts all of them."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import gguf
import libgguf
import numpy as np
import pytest
from gguf.quants import dequantize as gguf_dequantize
from gguf.quants import quantize as gguf_quantize
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erf

from quantdrift.quantizers import ggml
from quantdrift.quantizers.ledger import Entry
from quantdrift.quantizers.llamacpp import (
    FALLBACK,
    MAX_WEIGHT,
    TYPES,
    LlamaCpp,
    layout,
    quantized_bytes,
)

ALL = tuple(TYPES)
SUPER = tuple(name for name, type_ in TYPES.items() if type_.block == 256)
SMALL = tuple(name for name, type_ in TYPES.items() if type_.block == 32)
EXACT = settings(max_examples=60, deadline=None, derandomize=True)


def gaussian(rows: int, cols: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, cols)).astype(np.float32)


def relative_error(base: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(base - other) / np.linalg.norm(base))


KINDS = {
    "gaussian": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(2, size=shape),
    "positive": lambda rng, shape: np.abs(rng.normal(size=shape)),
    "constant": lambda rng, shape: np.full(shape, rng.normal()),
    "one spike": lambda rng, shape: np.eye(1, shape[0] * shape[1], 7).reshape(shape),
    "ties": lambda rng, shape: rng.choice([-1.0, 0.0, 1.0], shape),
    "all magnitudes": lambda rng, shape: rng.normal(size=shape) * 10 ** rng.uniform(-40, 0, shape),
}


@st.composite
def matrices(draw, min_exponent: int = -42, kinds: tuple[str, ...] = tuple(KINDS)) -> np.ndarray:
    """Matrices with whole blocks of 256 in their rows, from denormal to the largest magnitudes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (draw(st.integers(1, 3)), 256 * draw(st.integers(1, 3)))
    weight = KINDS[draw(st.sampled_from(kinds))](rng, shape)
    weight = weight * 10.0 ** draw(st.integers(min_exponent, 4))
    return np.clip(weight, -MAX_WEIGHT, MAX_WEIGHT).astype(np.float32)


# --- Bit-exact with others ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_sizes_and_names_are_those_of_the_library_and_of_gguf(name):
    type_, lib = TYPES[name], ggml.library()
    lib.ggml_type_name.restype = ggml.ctypes.c_char_p
    assert lib.ggml_type_name(type_.ggml_id).decode().lower() == name
    assert lib.ggml_blck_size(type_.ggml_id) == type_.block
    assert lib.ggml_type_size(type_.ggml_id) == type_.block_bytes
    qtype = gguf.GGMLQuantizationType(type_.ggml_id)
    assert qtype.name.lower() == name
    assert gguf.GGML_QUANT_SIZES[qtype] == (type_.block, type_.block_bytes)


@pytest.mark.parametrize("name", ALL)
@EXACT
@given(data=st.data())
def test_bytes_and_floats_are_those_of_libgguf(name, data):
    # Where IQ3_S would abort the process libgguf does too: our zeros have a test of their own.
    safe = {"min_exponent": -5, "kinds": ("gaussian", "positive", "constant", "one spike", "ties")}
    weight = data.draw(matrices(**safe) if name == "iq3_s" else matrices())
    qtype, cols = TYPES[name].ggml_id, weight.shape[1]
    packed = quantized_bytes(weight, name, "error")
    np.testing.assert_array_equal(packed, libgguf.quantize_rows(weight, qtype))
    floats = LlamaCpp(name, "error")(weight).weight
    reference = libgguf.dequantize_rows(packed, qtype, n_per_row=cols)
    np.testing.assert_array_equal(floats.view(np.uint32), reference.view(np.uint32))


@pytest.mark.parametrize("name", ALL)
def test_statistics_give_the_bytes_of_libgguf_at_any_scale(name):
    weight, rng = gaussian(4, 1024), np.random.default_rng(1)
    statistics = rng.chisquare(1, 1024).astype(np.float32)
    packed = quantized_bytes(weight, name, statistics=statistics)
    reference = libgguf.quantize_rows(weight, TYPES[name].ggml_id, imatrix=statistics)
    np.testing.assert_array_equal(packed, reference)
    for scale in (2.0**-120, 2.0**120):  # ggml alone underflows or overflows on these
        np.testing.assert_array_equal(
            quantized_bytes(weight, name, statistics=statistics * np.float32(scale)), packed
        )
    changed = not np.array_equal(packed, quantized_bytes(weight, name))
    assert changed == (name != "q8_0"), "every type but Q8_0 heeds the statistics"


@pytest.mark.parametrize("name", ALL)
def test_floats_are_those_of_gguf(name):
    weight = gaussian(8, 1024)
    packed, qtype = quantized_bytes(weight, name), gguf.GGMLQuantizationType(TYPES[name].ggml_id)
    floats = LlamaCpp(name)(weight).weight
    np.testing.assert_array_equal(floats, gguf_dequantize(packed, qtype))
    if name in ("q8_0", "q5_0", "q5_1", "q4_0", "q4_1"):  # all that gguf can quantize
        np.testing.assert_array_equal(packed, gguf_quantize(weight, qtype))


# --- How good the types are -----------------------------------------------------------------------


def test_error_of_symmetric_types_is_that_of_a_uniform_grid():
    # The step is max|x| / n over 32 Gaussians, the error uniform in it (variance step²/12), but for
    # the largest weight, which is on the grid. E max² = ∫ P(max² > t) dt. The n of Q4_0 and Q5_0 is
    # one short on one side, which adds up to 1.5 % at 4 bits; sampling adds 0.3 % (8192 blocks).
    mean_square_max = quad(lambda t: 2 * t * (1 - erf(t / np.sqrt(2)) ** 32), 0, 10)[0]
    weight = gaussian(256, 1024)
    for name, n in {"q8_0": 127, "q5_0": 16, "q4_0": 8}.items():
        expected = np.sqrt(mean_square_max / n**2 / 12 * 31 / 32)
        assert relative_error(weight, LlamaCpp(name)(weight).weight) == pytest.approx(
            expected, rel=0.02
        )


@pytest.mark.parametrize(
    ("more", "fewer", "ratio"),
    [("q6_k", "q5_k", 2), ("q5_k", "q4_k", 2), ("q4_k", "q3_k", 2), ("q3_k", "q2_k", 2),
     ("q5_1", "q4_1", 31 / 15), ("q8_0", "q4_0", 127 / 8), ("q4_0", "q4_k", 0.83)],
)  # fmt: skip
def test_one_bit_less_doubles_the_error(more, fewer, ratio):
    # A bit halves the step. The K-quants differ in how they search (and Q6_K and Q3_K have no
    # minima), hence 10 %. Q4_K beats Q4_0 at the same size, as llama.cpp's table of RMSE says.
    weight = gaussian(64, 1024)
    errors = [relative_error(weight, LlamaCpp(name)(weight).weight) for name in (more, fewer)]
    assert errors[1] / errors[0] == pytest.approx(ratio, rel=0.1)


@pytest.mark.parametrize("name", sorted(set(ALL) - {"q8_0"}))
def test_statistics_move_the_error_to_the_columns_that_matter_less(name):
    weight = gaussian(64, 1024)
    statistics = np.tile(np.float32([1, 100]), 512)

    def error(quantized):
        return relative_error(weight[:, 1::2], quantized.weight[:, 1::2])

    assert error(LlamaCpp(name)(weight, statistics)) < 0.99 * error(LlamaCpp(name)(weight))


@pytest.mark.parametrize("name", ["q8_0", "q5_0", "q4_0"])
@EXACT
@given(weight=matrices())
def test_types_with_one_scale_are_idempotent(name, weight):
    # The largest weight is a whole number of f16 steps, so that the second scale is the first.
    once = LlamaCpp(name)(weight).weight
    np.testing.assert_array_equal(LlamaCpp(name)(once).weight, once)


@pytest.mark.parametrize("name", ALL)
def test_powers_of_two_scale_through(name):
    weight = gaussian(4, 512)
    np.testing.assert_array_equal(
        LlamaCpp(name)(weight * 2**6).weight, LlamaCpp(name)(weight).weight * 2**6
    )


@pytest.mark.parametrize("name", ALL)
def test_zeros_constants_and_single_weights(name):
    for shape in ((3, 512), (3, 64), (1, 1), (5, 7)):
        assert not LlamaCpp(name)(np.zeros(shape, np.float32)).weight.any()
        constant = np.full(shape, -0.7, np.float32)
        # The scale is rounded to float16. That of IQ4_XS has 6 bits more to lose, and IQ3_S has no
        # codeword of four equal large weights: 0.25 was measured, with the bytes of libgguf.
        worst = {"iq4_xs": 1 / 32, "iq3_s": 1 / 4}.get(name, 2**-11)
        np.testing.assert_allclose(LlamaCpp(name)(constant).weight, constant, rtol=worst)
    weight = gaussian(3, 512)
    weight[1] = 0
    quantized = LlamaCpp(name)(weight).weight
    assert not quantized[1].any()
    assert quantized[0].any()


# --- Short rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_flat_cuts_the_row_major_matrix_into_blocks(name):
    weight = gaussian(4, 1024)
    whole = LlamaCpp(name, "error")(weight)
    for cols in (1024, 576, 64, 17, 1):
        rows = weight.size // cols
        part = weight.reshape(-1)[: rows * cols].reshape(rows, cols)
        flat = LlamaCpp(name, "flat")(part)
        n = part.size // 256 * 256  # whole blocks of any type
        np.testing.assert_array_equal(flat.weight.reshape(-1)[:n], whole.weight.reshape(-1)[:n])
        assert flat.type == name
        if part.size % 256 == 0:
            assert flat.ledger == whole.ledger


@pytest.mark.parametrize("name", SUPER)
def test_flat_repeats_the_statistics(name):
    # Every super-block scales its importance by its own sum of squares: no row matters to another.
    weight, statistics = gaussian(8, 128), np.arange(1, 129, dtype=np.float32)
    np.testing.assert_array_equal(
        quantized_bytes(weight, name, "flat", statistics).reshape(-1),
        quantized_bytes(
            weight.reshape(4, 256), name, "error", np.concatenate([statistics, statistics])
        ).reshape(-1),
    )


def test_flat_pads_the_last_block_with_zeros():
    weight = gaussian(3, 15)
    row = np.zeros((1, 64), np.float32)
    row[0, :45] = weight.reshape(-1)
    quantized = LlamaCpp("q4_0", "flat")(weight)
    np.testing.assert_array_equal(
        quantized.weight.reshape(-1), LlamaCpp("q4_0")(row).weight[0, :45]
    )
    assert quantized.ledger.entries == (
        Entry("indices", 45 * 4),
        Entry("scales", 2 * 16),
        Entry("padding", 19 * 4),
    )


# `tensor_type_fallback` of llama.cpp (007dbbf3), transcribed for 32 | cols; else F16.
LLAMA_QUANT_CPP = {
    "GGML_TYPE_IQ3_S": "GGML_TYPE_IQ4_NL",
    "GGML_TYPE_IQ4_XS": "GGML_TYPE_IQ4_NL",
    "GGML_TYPE_Q2_K": "GGML_TYPE_Q4_0",
    "GGML_TYPE_Q3_K": "GGML_TYPE_Q4_0",
    "GGML_TYPE_Q4_K": "GGML_TYPE_Q5_0",
    "GGML_TYPE_Q5_K": "GGML_TYPE_Q5_1",
    "GGML_TYPE_Q6_K": "GGML_TYPE_Q8_0",
}


def test_fallbacks_are_those_of_llama_cpp():
    short = {k[len("GGML_TYPE_"):].lower(): v[len("GGML_TYPE_"):].lower()
             for k, v in LLAMA_QUANT_CPP.items()}  # fmt: skip
    assert short == FALLBACK
    assert set(FALLBACK) == set(SUPER)


@pytest.mark.parametrize("name", SUPER)
def test_fallback_stores_the_other_type(name):
    weight = gaussian(4, 576)
    other, quantized = FALLBACK[name], LlamaCpp(name, "fallback")(weight)
    assert quantized.type == other
    np.testing.assert_array_equal(quantized.weight, LlamaCpp(other)(weight).weight)
    np.testing.assert_array_equal(
        quantized_bytes(weight, name, "fallback"),
        libgguf.quantize_rows(weight, TYPES[other].ggml_id),
    )
    assert quantized.ledger.bpw_full == TYPES[other].bpw
    assert quantized.ledger.bpw_claimed == TYPES[name].nominal_bits


@pytest.mark.parametrize("name", SUPER)
def test_fallback_of_the_fallback_is_f16(name):
    weight = gaussian(4, 100)
    quantized = LlamaCpp(name, "fallback")(weight)
    assert quantized.type == "f16"
    np.testing.assert_array_equal(quantized.weight, weight.astype(np.float16))
    assert quantized.ledger.bpw_full == 16


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("short_rows", ["flat", "fallback", "error"])
def test_ledger_counts_every_stored_bit(name, short_rows):
    for shape in ((4, 1024), (3, 576), (2, 32), (3, 100), (1, 1)):
        weight = gaussian(*shape)
        block = TYPES[name].block
        if shape[1] % block and (short_rows == "error" or (short_rows, block) == ("fallback", 32)):
            with pytest.raises(ValueError, match=f"rows of {shape[1]} weights .* {name}.*'flat'"):
                LlamaCpp(name, short_rows)(weight)
            continue
        ledger = LlamaCpp(name, short_rows)(weight).ledger
        assert ledger.bits_full == 8 * quantized_bytes(weight, name, short_rows).nbytes
        assert ledger.n_weights == weight.size
        assert ledger.bpw_claimed == TYPES[name].nominal_bits
        assert ledger.bpw_full >= ledger.bpw_claimed


# Bytes of the fields of `block_*` in ggml's ggml-common.h, by what they hold. Where one field packs
# the scales and minima of 8 or 16 sub-blocks, they share it evenly.
STRUCTS = {
    "q8_0": {"indices": 32, "scales": 2},  # qs; d
    "q6_k": {"indices": 128 + 64, "scales": 16, "super_scales": 2},  # ql, qh; scales; d
    "q5_0": {"indices": 4 + 16, "scales": 2},  # qh, qs; d
    "q5_1": {"indices": 4 + 16, "scales": 2, "minima": 2},  # qh, qs; d; m
    "q5_k": {"indices": 32 + 128, "scales": 6, "minima": 6, "super_scales": 2, "super_minima": 2},
    "q4_0": {"indices": 16, "scales": 2},
    "q4_1": {"indices": 16, "scales": 2, "minima": 2},
    "q4_k": {"indices": 128, "scales": 6, "minima": 6, "super_scales": 2, "super_minima": 2},
    "q3_k": {"indices": 32 + 64, "scales": 12, "super_scales": 2},  # hmask, qs; scales; d
    "q2_k": {"indices": 64, "scales": 8, "minima": 8, "super_scales": 2, "super_minima": 2},
    "iq4_nl": {"indices": 16, "scales": 2},
    "iq4_xs": {"indices": 128, "scales": 2 + 4, "super_scales": 2},  # qs; scales_h, scales_l; d
    "iq3_s": {"indices": 64 + 8 + 32, "scales": 4, "super_scales": 2},  # qs, qh, signs; scales; d
}


def test_items_are_the_fields_of_the_blocks():
    items = {
        name: {part.name: part.bits / 8 for part in type_.parts} for name, type_ in TYPES.items()
    }
    assert items == STRUCTS


def test_nominal_bits_are_in_the_name():
    assert {name: type_.nominal_bits for name, type_ in TYPES.items()} == {
        name: int(name.removeprefix("i")[1]) for name in ALL
    }


def test_errors_of_short_rows_name_the_remedies():
    with pytest.raises(ValueError, match=r"576 .* 256 .* q4_k.*'flat'.*'fallback'.*q8_0"):
        layout(576, 576, "q4_k", "error")
    with pytest.raises(ValueError, match=r"100 .* 32 .* q8_0.*no fallback.*'flat'"):
        layout(576, 100, "q8_0", "fallback")


# --- Input, errors, threads -----------------------------------------------------------------------


def test_any_float_layout_and_dtype_is_taken_and_left_alone():
    weight = gaussian(64, 576).astype(np.float16).astype(np.float32)
    quantizer = LlamaCpp("q4_k", "flat")
    expected = quantizer(weight).weight
    wide = np.zeros((128, 1152), np.float32)
    wide[::2, ::2] = weight
    variants = {
        "float16": weight.astype(np.float16),
        "float64": weight.astype(np.float64),
        "Fortran": np.asfortranarray(weight),
        "strided": wide[::2, ::2],
        "big endian": weight.astype(">f4"),
    }
    for name, variant in variants.items():
        before = variant.copy()
        variant.flags.writeable = False
        quantized = quantizer(variant).weight
        np.testing.assert_array_equal(quantized, expected, err_msg=name)
        np.testing.assert_array_equal(variant, before, err_msg=name)
        assert quantized.flags.c_contiguous
        assert quantized.dtype == np.float32
        assert not np.shares_memory(quantized, variant)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_weights_that_are_not_finite_are_refused(bad):
    weight = gaussian(4, 256).astype(np.float64)
    weight[2, 7] = bad
    with pytest.raises(ValueError, match=r"1 of 1024 weights are not finite.* row 2, column 7"):
        LlamaCpp("q4_0")(weight)


def test_other_input_errors():
    weight = gaussian(4, 256)
    with pytest.raises(ValueError, match=r"70000.* is beyond 65504"):
        LlamaCpp("q8_0")(np.full((1, 32), -70000, np.float32))
    with pytest.raises(ValueError, match="no weights"):
        LlamaCpp("q8_0")(weight[:0])
    with pytest.raises(ValueError, match="unknown type 'Q4_K'; known: q8_0, q6_k"):
        LlamaCpp("Q4_K")
    with pytest.raises(ValueError, match=r"shape .100,. for rows of 256"):
        LlamaCpp("q4_k")(weight, np.ones(100))
    for statistics in (np.zeros(256), -np.ones(256), np.full(256, np.nan), np.full(256, 1e200)):
        with pytest.raises(ValueError, match="finite in float32, not negative, and not all zero"):
            LlamaCpp("q4_k")(weight, statistics)


def test_a_scale_beyond_float16_is_an_error():
    # With statistics Q5_1 fits its minimum, here beyond the largest float16.
    weight = np.clip(gaussian(64, 32) * 3e4, -MAX_WEIGHT, MAX_WEIGHT).astype(np.float32)
    assert np.isfinite(LlamaCpp("q5_1")(weight).weight).all()
    with pytest.raises(ValueError, match=r"q5_1 overflows .* beyond float16"):
        LlamaCpp("q5_1")(weight, np.random.default_rng(0).uniform(size=32))


def test_ggml_alone_aborts_on_large_statistics():
    # Why we scale them: should this fail with a newer ggml, that can go.
    code = (
        "import numpy as np; from quantdrift.quantizers import ggml;"
        " weight = np.random.default_rng(0).normal(size=(1, 256)).astype(np.float32);"
        " ggml.quantize(weight, 21, 110, np.full(256, 2.0**120, np.float32))"
    )
    environment = {**os.environ, "GGML_NO_BACKTRACE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    job = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert job.returncode < 0
    assert b"GGML_ASSERT" in job.stderr


@pytest.mark.parametrize("name", ALL)
def test_statistics_of_any_range_give_finite_weights(name):
    rng = np.random.default_rng(0)
    weight = gaussian(4, 512)
    weight[:, :256] *= 1e-20
    for statistics in (
        np.exp(rng.uniform(-80, 80, 512)),
        np.where(rng.uniform(size=512) < 0.02, 1.0, 0.0),
        np.repeat([0.0, 1.0, 0.0, 1e-30], 128),
    ):
        assert np.isfinite(LlamaCpp(name)(weight, statistics).weight).all()


def test_threads_agree():
    weights = [gaussian(64, 512, seed) for seed in range(4)]
    jobs = [(name, weight) for name in ALL for weight in weights]
    serial = [LlamaCpp(name)(weight).weight for name, weight in jobs]
    with ThreadPoolExecutor(2) as pool:
        parallel = list(pool.map(lambda job: LlamaCpp(job[0])(job[1]).weight, jobs))
    for one, two in zip(serial, parallel, strict=True):
        np.testing.assert_array_equal(one, two)
