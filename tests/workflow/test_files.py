"""A quantized file as a scheme of a whole study: measured like any, and anew if it changes."""

import json
import os
from pathlib import Path

import gguf
import numpy as np
import pyarrow.parquet as pq
import pytest
from study import Study, write_tiny_model
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

pytestmark = pytest.mark.workflow

FILE = "llamacpp-q4_0-file"
PURE = "llamacpp-q4_0-pure"
Q4_0, Q8_0, F32 = (gguf.GGMLQuantizationType[name] for name in ("Q4_0", "Q8_0", "F32"))


def write_gguf(model_directory: Path, path: Path) -> Path:
    """The tiny model as llama.cpp's Q4_0, with v in Q8_0."""
    model = AutoModelForCausalLM.from_pretrained(model_directory)
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        for projection, n in heads.items():
            if projection in name:  # llama.cpp's order of rows
                split = values.reshape(n, 2, len(values) // n // 2, -1)
                values = split.swapaxes(1, 2).reshape(values.shape)
        kind = F32 if values.ndim == 1 else Q8_0 if "v_proj" in name else Q4_0
        stored = gguf.quantize(np.ascontiguousarray(values), kind)
        writer.add_tensor(names.get_name(name, (".weight",)), stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def measured(finished: Study) -> Study:
    """What the finished study measured of the base is not measured again."""
    study = finished
    path = write_gguf(study.model, study.folder / "tiny.gguf")
    more = [
        f"files={{{FILE}: {path}}}",
        f"schemes=[{PURE},{FILE}]",
        f"gauge.schemes=[{FILE}]",
        "gauge.seeds=[0]",
    ]
    words = study.config[-1].rstrip("]") + "".join(f",{word!r}" for word in more) + "]"
    study.config = [*study.config[:-1], words]
    study.run()
    return study


def rows(study: Study, kind: str) -> dict[tuple[str, int], dict]:
    found = (study.folder / "results/shards" / kind).rglob(f"*/{FILE}/none/**/*.parquet")
    read = [row for file in found for row in pq.ParquetFile(file).read().to_pylist()]
    return {(row["role"], row["block"]): row for row in read}


def test_a_file_is_measured_like_any_scheme(measured: Study):
    errors = rows(measured, "weight_error")
    assert {key: row["type"] for key, row in errors.items()} == {
        (role, block): {"q": "q4_0", "v": "q8_0"}[role] for role in "qv" for block in range(3)
    }
    assert all(row["short_rows"] is None for row in errors.values())
    assert errors["q", 0]["bpw_full"] == 4.5
    # What our own quantizer makes of the same matrix is what the file holds.
    pure = measured.folder / "results/shards/weight_error"
    ours = [
        row
        for file in pure.rglob(f"*/{PURE}/flat/q/*.parquet")
        for row in pq.ParquetFile(file).read().to_pylist()
    ]
    assert {row["block"]: row["relative_frobenius"] for row in ours} == pytest.approx(
        {block: errors["q", block]["relative_frobenius"] for block in range(3)}, rel=1e-3
    )
    for kind in ("diagrams", "distances", "gauge_drift"):
        assert rows(measured, kind).keys() == errors.keys()
    assert list((measured.folder / "results/shards/agreement").rglob(f"*/{FILE}/none/**/*.parquet"))
    assert "Q4_0" in (measured.folder / "results/demo/report.html").read_text()


def test_the_manifest_says_what_the_file_is(measured: Study):
    (manifest,) = (measured.folder / "results/files").rglob("*.json")
    about = json.loads(manifest.read_text())
    assert about["outside"] == {"embed": "q4_0", "head": None}
    assert len(about["matrices"]) == 7 * 3
    assert not manifest.with_suffix("").exists(), "dense float32 was kept"


def test_another_file_under_the_same_id_measures_that_scheme_anew(measured: Study):
    assert measured.planned() == {}
    file = measured.folder / "tiny.gguf"
    before, content = file.stat(), file.read_bytes()
    file.write_bytes(content + b"more")
    try:
        changed = measured.planned()
    finally:
        file.write_bytes(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    copy = file.with_name("copy.gguf")
    copy.write_bytes(content)
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    moved = measured.planned(set_also=(f"files={{{FILE}: {copy}}}",))
    for planned in (changed, moved):
        assert planned["file_source"] == planned["quantized_file"] == 1
        assert planned["weight_error"] == planned["diagrams"] == 2 * 2
        assert not {"weights", "checkpoint"} & planned.keys()
    assert measured.planned() == {}


def test_another_role_opens_the_file_again(measured: Study):
    # Its weights are temporary, and Snakemake measures anew what reads a file that is made anew:
    # the other scheme's jobs are those of the new role alone.
    planned = measured.planned(set_also=("roles=[q,v,k]",))
    assert planned["quantized_file"] == 1
    assert planned["weight_error"] == 2 + 3 * 2


def test_a_file_of_another_model_stops_with_its_name(measured: Study, tmp_path):
    other = write_gguf(write_tiny_model(tmp_path / "other", seed=1), tmp_path / "other.gguf")
    words = measured.config[-1].rstrip("]") + f",{f'files={{{FILE}: {other}}}'!r}]"
    config = [*measured.config[:-1], words]
    done = measured.run("weight_error_table", config=config, check=False)
    assert done.returncode != 0
    assert "is another model than its base" in done.stdout + done.stderr
    assert "give the file of this base" in done.stdout + done.stderr


def test_gauges_of_a_family_that_has_none_are_refused_with_the_remedy(new_study, tmp_path):
    config = GPT2Config(n_embd=32, n_layer=1, n_head=2, n_inner=64, vocab_size=257, n_positions=64)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "tiny-gpt2")
    study = new_study()
    words = study.config[-1].rstrip("]") + f",{f'models=[{tmp_path}/tiny-gpt2]'!r}]"
    asked = [*study.config[:-1], words]
    done = study.run("gauge_drift_figure", config=asked, check=False)
    assert done.returncode != 0
    assert "a gpt2 model, which has no gauges to compare" in done.stdout + done.stderr
    assert "gauge.schemes=[]" in done.stdout + done.stderr
