"""Attention agreement through the workflow: what is planned, where data come from, what resumes."""

import json
import shutil

import gguf
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from study import SCHEMES, Study
from transformers import AutoModelForCausalLM, AutoTokenizer

pytestmark = pytest.mark.workflow

PART = "results/shards/attention/{model}/llamacpp-q2_k-paper/flat/last/{dataset}.parquet"


def rows(study: Study, pattern: str) -> list[dict]:
    (file,) = study.folder.glob(pattern)
    return pq.ParquetFile(file).read().to_pylist()


def messages(study: Study, rule: str, scheme: str) -> str:
    (log,) = study.folder.glob(f"results/logs/{rule}/*/{scheme}/*/last.log")
    return log.read_text()


def test_table_1_makes_no_more_than_it_needs(new_study):
    planned = new_study().planned("topoquant_table_1")
    assert planned["attention"] == len(SCHEMES) + 1
    assert planned["agreement"] == len(SCHEMES)
    assert planned["dataset"] == 2
    unneeded = {"diagrams", "distances", "weight_error", "gauge_drift", "report"}
    assert not unneeded & planned.keys()


def test_agreement_covers_every_item_block_and_policy(finished: Study):
    found = rows(finished, "results/demo/tables/agreement.parquet")
    # 3 schemes x 2 data sets x 5 items x 2 BOS policies x 3 blocks
    assert len(found) == len(SCHEMES) * 2 * 5 * 2 * 3
    assert {row["bos"] for row in found} == {"with", "without"}
    assert all(0 <= row["iou"] <= 1 for row in found)


def by_hand(model, ids: list[int], bos: int | None) -> list[list[int]]:
    """Top-3 positions of each block from transformers' eager maps, as the paper writes them."""
    with torch.inference_mode():
        maps = model(torch.tensor([ids]), output_attentions=True).attentions
    best = []
    for block in maps:
        row = block[0].mean(0)[-1].double().numpy().copy()  # eq. 9: heads averaged, query T
        row[-1] = -np.inf  # eq. 10: t = q
        row[[position for position, token in enumerate(ids) if token == bos]] = -np.inf
        best.append(list(np.argsort(-row, kind="stable")[:3]))
    return best


def test_agreement_equals_a_computation_by_hand(finished: Study):
    """Weights quantized by the gguf package, attention by eager maps, sets by NumPy."""
    load = AutoModelForCausalLM.from_pretrained
    base, quantized = (load(finished.model, attn_implementation="eager") for _ in range(2))
    for name, weight in quantized.named_parameters():
        if "proj" in name:
            packed = gguf.quantize(weight.detach().numpy(), gguf.GGMLQuantizationType.Q8_0)
            weight.data = torch.from_numpy(gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0))
    tokenizer = AutoTokenizer.from_pretrained(finished.model)
    items = {row["item"]: row for row in rows(finished, "results/shards/items/own-arc.parquet")}
    found = [
        row
        for row in rows(finished, "results/demo/tables/agreement.parquet")
        if row["scheme"] == "llamacpp-q8_0-paper" and row["dataset"] == "own-arc"
    ]
    assert len(found) == 5 * 2 * 3
    expected = {}
    for item, bos in {(row["item"], row["bos"]) for row in found}:
        ids = tokenizer(items[item]["prompt"], add_special_tokens=False)["input_ids"]
        ids = [tokenizer.bos_token_id, *ids] if bos == "with" else ids
        sets = (by_hand(model, ids, tokenizer.bos_token_id) for model in (base, quantized))
        for block, (before, after) in enumerate(zip(*sets, strict=True)):
            shared = len({*before} & {*after})
            expected[item, bos, block] = (float(before[0] == after[0]), shared / (6 - shared))
    for row in found:
        top1, iou = expected[row["item"], row["bos"], row["block"]]
        assert (row["top1"], row["iou"]) == (top1, pytest.approx(iou))


def test_coarse_levels_agree_less(finished: Study):
    found = rows(finished, "results/demo/tables/agreement_table.parquet")
    iou = {(row["scheme"], row["dataset"]): row["iou"] for row in found if row["bos"] == "with"}
    for dataset in ("own-arc", "own-winogrande"):
        assert iou["llamacpp-q8_0-paper", dataset] > iou["llamacpp-q2_k-paper", dataset]


def test_exactly_one_bos_and_the_first_ids_are_in_the_log(finished: Study):
    """R6: byte tokens here, so `Question` begins with the id of Q after the BOS, which is 0."""
    log = messages(finished, "attention", "base")
    first = ord("Q") - ord("!") + 1  # the alphabet of bytes begins with the exclamation mark
    second = ord("u") - ord("!") + 1
    assert "with BOS: 5 prompts of " in log
    assert f"the first begins with the ids [0, {first}, {second}," in log
    assert f"the first begins with the ids [{first}, {second}," in log
    with_bos = {
        (row["item"], row["n_tokens"])
        for row in rows(finished, "results/demo/tables/agreement.parquet")
        if row["bos"] == "with"
    }
    without = {
        (row["item"], row["n_tokens"] + 1)
        for row in rows(finished, "results/demo/tables/agreement.parquet")
        if row["bos"] == "without"
    }
    assert with_bos == without


def test_finished_data_sets_survive_a_failed_job(new_study):
    """Staged by data set: a job that fails on the second does not run the first again."""
    study = new_study()
    shard = "results/shards/agreement/{model}/llamacpp-q2_k-paper/flat/last/own-arc.parquet"
    study.run("results/shards/items/own-arc.parquet", "results/shards/items/own-winogrande.parquet")
    items = study.folder / "results/shards/items/own-winogrande.parquet"
    whole = pq.read_table(items)
    broken = whole.set_column(
        whole.schema.get_field_index("prompt"),
        whole.schema.field("prompt"),
        pa.array([""] * whole.num_rows, pa.string()),
    )
    pq.write_table(broken, items)
    target = shard.format(model=study.model_id)
    failed = study.run(target, check=False)
    assert failed.returncode != 0
    assert ", own-winogrande, scheme" in failed.stdout + failed.stderr
    assert "has no tokens" in failed.stdout + failed.stderr
    assert not (study.folder / PART.format(model=study.model_id, dataset="own-arc")).exists()
    pq.write_table(whole, items)
    study.run(target)
    for scheme in ("base", "llamacpp-q2_k-paper"):
        log = messages(study, "attention", scheme)
        assert "Batches of own-winogrande" in log
        assert "Batches of own-arc" not in log, "the first data set ran again"
    assert not any((study.folder / "results/.stage").iterdir())


def test_data_sets_come_from_a_local_folder(new_study, tmp_path):
    """Files of the hub's data sets under `data.dir`; no hub is asked."""
    asked = {
        "id": "local-1",
        "question": {
            "stem": "Which of these floats on water?",
            "choices": [{"text": "a cork", "label": "A"}, {"text": "a nail", "label": "B"}],
        },
        "answerKey": "A",
    }
    (tmp_path / "arc_easy_test.jsonl").write_text(json.dumps(asked) + "\n")
    study = new_study()
    settings = ("datasets=[arc-easy]", f"data.dir={tmp_path}", "schemes=[llamacpp-q2_k-paper]")
    config = [*study.config]
    config[-1] = config[-1].rstrip("]") + "".join(f",{word!r}" for word in settings) + "]"
    study.run("topoquant_table_1", config=config)
    (item,) = rows(study, "results/shards/items/arc-easy.parquet")
    assert item["prompt"] == "Question: Which of these floats on water?\nAnswer:"
    assert item["item"] == "local-1"


def test_a_local_folder_without_the_data_set_is_named(new_study, tmp_path):
    study = new_study()
    (tmp_path / "other.txt").touch()
    config = [*study.config]
    config[-1] = config[-1].rstrip("]") + f",'datasets=[hellaswag]','data.dir={tmp_path}']"
    done = study.run("--dry-run", config=config, check=False)
    assert done.returncode != 0
    assert "hellaswag_val" in done.stdout + done.stderr
    assert "other.txt" in done.stdout + done.stderr


def test_a_study_without_data_sets_says_which_has_some(new_study):
    study = new_study()
    assert "attention" not in study.planned(set_also=("datasets=[]",))
    config = [*study.config]
    config[-1] = config[-1].rstrip("]") + ",'datasets=[]']"
    done = study.run("--dry-run", "topoquant_table_1", config=config, check=False)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "names no data sets" in said
    assert "--config study=demo" in said


def test_a_model_without_tokenizer_stops_with_a_remedy(new_study, tmp_path):
    study = new_study()
    source = study.model
    bare = tmp_path / "bare"
    shutil.copytree(source, bare, ignore=shutil.ignore_patterns("tokenizer*", "special*"))
    study.use(bare)
    base = PART.replace("llamacpp-q2_k-paper/flat", "base/none")
    done = study.run(base.format(model=study.model_id, dataset="own-arc"), check=False)
    assert done.returncode != 0
    assert "has no tokenizer" in done.stdout + done.stderr
    assert "tokenizer.json" in done.stdout + done.stderr
    for file in source.glob("tokenizer*"):
        shutil.copy(file, bare)
    study.run(base.format(model=study.model_id, dataset="own-arc"))


def test_heads_apart_are_a_setting_with_a_name(new_study):
    study = new_study()
    config = [*study.config]
    config[-1] = (
        config[-1].rstrip("]") + ",'agreement.heads=each','agreement.preset=heads',"
        "'schemes=[llamacpp-q2_k-paper]','gauge.schemes=[]','agreement.bos=[without]']"
    )
    study.run("topoquant_table_1", config=config)
    found = rows(study, "results/demo/tables/agreement.parquet")
    assert {row["head"] for row in found} == {0, 1, 2, 3}
    assert {row["bos"] for row in found} == {"without"}
