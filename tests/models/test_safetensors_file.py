import json
import struct
import tracemalloc

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from quantdrift.models import safetensors_file
from quantdrift.models.safetensors_file import entries, write

RNG = np.random.default_rng(0)


def every_pattern(dtype: torch.dtype) -> torch.Tensor:
    """All 65,536 numbers of a half precision, or as many random bits of a longer one."""
    if dtype.itemsize == 2:
        bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    else:
        integer = {4: np.int32, 8: np.int64}[dtype.itemsize]
        low, high = np.iinfo(integer).min, np.iinfo(integer).max
        bits = torch.tensor(RNG.integers(low, high, 2**16, integer, endpoint=True))
    return bits.view(dtype).reshape(256, 256)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_reading_is_torchs_conversion_bit_for_bit(tmp_path, dtype):
    tensor = every_pattern(dtype)
    # An odd number of bytes in front: what is mapped need not be aligned.
    save_file({"odd": torch.ones(3, dtype=torch.uint8), "t": tensor}, tmp_path / "f.safetensors")
    read = entries(tmp_path / "f.safetensors")["t"].float32()
    expected = tensor.to(torch.float32).numpy()
    assert read.dtype == np.float32
    assert read.flags.writeable
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(read), nan)
    np.testing.assert_array_equal(read[~nan].view(np.uint32), expected[~nan].view(np.uint32))


def test_entries_are_those_of_the_reference_reader(tmp_path):
    tensors = {"a": torch.rand(3, 5), "b": torch.rand(7).half(), "empty": torch.rand(0, 4)}
    save_file(tensors, tmp_path / "f.safetensors", {"format": "pt"})
    found = entries(tmp_path / "f.safetensors")
    with safe_open(tmp_path / "f.safetensors", "np") as reference:
        assert found.keys() == set(reference.keys())
        for name, entry in found.items():
            np.testing.assert_array_equal(entry.float32(), reference.get_tensor(name))
            assert entry.is_finite()


def test_written_files_are_read_by_the_reference_reader(tmp_path):
    arrays = {"a": RNG.random((4, 6), np.float32), "t": RNG.random((6, 4), np.float32).T}
    write(tmp_path / "f.safetensors", arrays)
    with safe_open(tmp_path / "f.safetensors", "np") as reference:
        assert reference.metadata() == {"format": "pt"}
        for name, values in arrays.items():
            np.testing.assert_array_equal(reference.get_tensor(name), values)
    assert [file.name for file in tmp_path.iterdir()] == ["f.safetensors"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    write(tmp_path / "f.safetensors", {"a": np.ones(3, np.float32)})

    def full(_arrays, file, **_):
        file.write_bytes(b"half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path / "f.safetensors", {"a": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(entries(tmp_path / "f.safetensors")["a"].float32(), np.ones(3))
    assert [file.suffix for file in tmp_path.iterdir() if file.suffix == ".safetensors"] == [
        ".safetensors"
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), None])
def test_the_one_value_that_is_not_finite_is_found_wherever_it_is(
    tmp_path, monkeypatch, dtype, bad
):
    monkeypatch.setattr(safetensors_file, "_CHUNK", 100)
    for where in (0, 99, 100, 1000, 1049):
        tensor = torch.ones(1050, dtype=dtype)
        if bad is not None:
            tensor[where] = bad
        save_file({"t": tensor}, tmp_path / "f.safetensors")
        assert entries(tmp_path / "f.safetensors")["t"].is_finite() == (bad is None)


def test_what_float32_cannot_hold_is_not_finite(tmp_path):
    save_file({"t": torch.tensor([1e300], dtype=torch.float64)}, tmp_path / "f.safetensors")
    assert not entries(tmp_path / "f.safetensors")["t"].is_finite()


def test_telling_whether_all_is_finite_needs_little_memory(tmp_path):
    # A head of 128,256 x 4,096 would be 2 GB in float32; here 64 MB stand for it.
    tensor = torch.ones(8, 4 << 20, dtype=torch.bfloat16)
    save_file({"t": tensor}, tmp_path / "f.safetensors")
    entry = entries(tmp_path / "f.safetensors")["t"]
    tracemalloc.start()
    assert entry.is_finite()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Of one chunk: its float32 (4 bytes a value) and what isfinite says (1 byte), twice at most.
    assert peak < 2 * 5 * safetensors_file._CHUNK < tensor.numel() * 4


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_what_is_no_plain_float_is_refused(tmp_path, dtype):
    save_file({"t": torch.ones(4).to(dtype)}, tmp_path / "f.safetensors")
    entry = entries(tmp_path / "f.safetensors")["t"]
    with pytest.raises(ValueError, match=r"known are F64, F32, F16, BF16"):
        entry.float32()


def header(content: object, data: bytes = b"") -> bytes:
    packed = json.dumps(content).encode() if not isinstance(content, bytes) else content
    return struct.pack("<Q", len(packed)) + packed + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        b"this is a text and no model",
        header(b"{"),
        header([1, 2]),
        header({"t": 3}),
        header({"t": {"dtype": "F32", "shape": [2]}}),
        header({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}),
        header({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(7)),
        header({"t": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, bytes(8)),
        header({"t": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 3]}}, bytes(8)),
        struct.pack("<Q", 2**63) + b"{}",
    ],
)
def test_what_is_no_safetensors_file_is_named(tmp_path, content):
    (tmp_path / "bad.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.safetensors"):
        entries(tmp_path / "bad.safetensors")
