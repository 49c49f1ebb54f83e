import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable

import gguf
import pytest
from tiny_models import BLOCKS, tiny, write_gguf

from quantdrift.models.headers import count_blocks


def gguf_file(path, fill: Callable[[gguf.GGUFWriter], None]):
    writer = gguf.GGUFWriter(path, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_a_gguf_file(tmp_path):
    assert count_blocks(write_gguf(tiny(), tmp_path / "t.gguf")) == BLOCKS


def test_every_kind_of_metadata_is_stepped_over(tmp_path):
    def fill(w: gguf.GGUFWriter) -> None:
        w.add_string("a.string", "block_count")
        w.add_string("a.long", "llama.block_count" * 10000)
        for kind in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
            getattr(w, f"add_{kind}")(f"a.{kind}", 77)
        w.add_float32("a.float32", 1.5)
        w.add_float64("a.float64", 1.5)
        w.add_bool("a.bool", True)
        w.add_array("a.strings", ["x" * i for i in range(100)])
        w.add_array("a.empty_string_array_like", [""])
        w.add_array("a.floats", [0.5] * 1000)
        w.add_array("a.bools", [True, False])
        # Not this model's: a part of it has a count of its own.
        w.add_uint32("clip.vision.block_count", 99)
        w.add_uint32("llama.block_count", 31)
        w.add_string("z", "after")

    assert count_blocks(gguf_file(tmp_path / "t.gguf", fill)) == 31


def test_nested_arrays_are_stepped_over(tmp_path):
    inner = struct.pack("<IQ", 4, 2) + struct.pack("<II", 7, 7)
    fields = [
        (b"a.nested", struct.pack("<IIQ", 9, 9, 3) + inner * 3),
        (b"llama.block_count", struct.pack("<II", 4, 5)),
    ]
    body = b"".join(struct.pack("<Q", len(key)) + key + value for key, value in fields)
    (tmp_path / "t.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + body)
    assert count_blocks(tmp_path / "t.gguf") == 5


def test_a_large_vocabulary_first_costs_little(tmp_path):
    def fill(w: gguf.GGUFWriter) -> None:
        w.add_array("tokenizer.ggml.tokens", [f"<token {i}>" for i in range(150_000)])
        w.add_array("tokenizer.ggml.scores", [0.0] * 150_000)
        w.add_block_count(30)

    path = gguf_file(tmp_path / "t.gguf", fill)
    began = time.process_time()
    assert count_blocks(path) == 30
    # A quarter of a second where nothing disturbs; the workflow parses within three.
    assert time.process_time() - began < 1.5


@pytest.mark.parametrize("length", [0, 3, 4, 10, 24, 30, 60])
def test_a_file_cut_short_is_named(tmp_path, length):
    whole = gguf_file(tmp_path / "t.gguf", lambda w: w.add_block_count(3)).read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:length])
    with pytest.raises(ValueError, match=r"cut\.gguf"):
        count_blocks(tmp_path / "cut.gguf")


def test_a_file_cut_anywhere_is_named(tmp_path):
    def fill(w: gguf.GGUFWriter) -> None:
        w.add_array("a.strings", ["some", "words"])
        w.add_string("a.string", "more words")
        w.add_array("a.numbers", [1, 2, 3])
        w.add_block_count(3)

    whole = gguf_file(tmp_path / "t.gguf", fill).read_bytes().rstrip(b"\0") + b"\0\0\0"
    assert count_blocks(tmp_path / "t.gguf") == 3
    for length in range(len(whole)):
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.gguf"):
            count_blocks(tmp_path / "cut.gguf")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"PK\x03\x04", r"is no GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 1) + bytes(40), r"version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 1) + bytes(40), r"version"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), r"a string of 4611686018427387904 bytes"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<I", 99), r"type 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), r"no block_count"),
    ],
)
def test_what_is_no_gguf_is_refused(tmp_path, content, match):
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        count_blocks(tmp_path / "x.gguf")


def test_directories(tmp_path):
    config = {"num_hidden_layers": 26}
    for content in (
        config,
        {"text_config": config},
        {"num_hidden_layers": 3, "text_config": config},
        {"n_layer": 26},
        {"text_config": {"n_layer": 26}},
    ):
        (tmp_path / "config.json").write_text(json.dumps(content))
        assert count_blocks(tmp_path) == 26


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("{}", r"config.json has no num_hidden_layers"),
        ('{"text_config": {}}', r"config.json has no num_hidden_layers"),
        ('{"num_hidden_layers": null}', r"config.json cannot be read"),
        ('{"num_hidden_layers": ', r"config.json cannot be read"),
        ("[]", r"config.json cannot be read"),
    ],
)
def test_configs_without_the_number_are_named(tmp_path, content, match):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=match):
        count_blocks(tmp_path)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        count_blocks(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none\.gguf"):
        count_blocks(tmp_path / "none.gguf")


def test_planning_loads_neither_torch_nor_gguf():
    program = (
        "import sys; import quantdrift.models.headers as h; "
        "print([m for m in ('torch', 'gguf', 'numpy', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"
