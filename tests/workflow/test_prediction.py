"""From drift to a saved predictor, and its use on a model that is never run; accuracy beside it."""

import pyarrow.parquet as pq
import pytest
import torch
from study import Study, write_tiny_model
from transformers import AutoModelForCausalLM, AutoTokenizer

pytestmark = pytest.mark.workflow

SMALL = (
    "schemes=[llamacpp-q8_0-paper,llamacpp-q2_k-paper]",
    "gauge.schemes=[]",
    "roles=[q,k,v]",
    "accuracy.datasets=[own-arc]",
    "accuracy.items=4",
    "prediction.regressors=[linear]",
)


def small(study: Study, *more: str) -> list[str]:
    """The finished study's settings, then these."""
    words = study.config[-1].rstrip("]") + "".join(f",{word!r}" for word in (*SMALL, *more)) + "]"
    return [*study.config[:-1], words]


def rows(study: Study, name: str) -> list[dict]:
    return pq.ParquetFile(study.folder / f"results/demo/tables/{name}.parquet").read().to_pylist()


@pytest.fixture(scope="module")
def fitted(finished: Study) -> Study:
    finished.run("predictor", "stopping", "accuracy_table", config=small(finished))
    return finished


def test_every_rule_names_a_level_or_none(fitted: Study):
    found = rows(fitted, "stopping")
    assert len(found) == 8 * 3  # rules x marks
    assert {row["outcome"] for row in found} <= {"hit", "early", "late"}
    seen = rows(fitted, "foreseen")
    assert {(row["level"], row["split"]) for row in seen} == {
        ("Q8_0", "by_level"),
        ("Q2_K", "by_level"),
    }


def test_accuracy_of_the_base_is_that_of_transformers(fitted: Study):
    items = {
        row["item"]: row
        for row in pq.ParquetFile(fitted.folder / "results/shards/items/own-arc.parquet")
        .read()
        .to_pylist()
    }
    model = AutoModelForCausalLM.from_pretrained(fitted.model)
    tokenizer = AutoTokenizer.from_pretrained(fitted.model)
    (file,) = fitted.folder.glob("results/shards/choices/*/base/none/choices/own-arc.parquet")
    found = pq.ParquetFile(file).read().to_pylist()
    assert len({row["item"] for row in found}) == 4
    for row in found[:6]:
        item = items[row["item"]]
        context, end = item["contexts"][row["choice"]], item["continuations"][row["choice"]]
        ids = tokenizer(context + end, add_special_tokens=False)["input_ids"]
        n_context = len(tokenizer(context, add_special_tokens=False)["input_ids"])
        with torch.no_grad():
            log_p = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
        expected = sum(float(log_p[at - 1, ids[at]]) for at in range(n_context, len(ids)))
        assert row["log_likelihood"] == pytest.approx(expected, abs=1e-4)
        assert row["is_answer"] == (row["choice"] == item["answer"])
    for row in rows(fitted, "accuracy_table"):
        assert row["n_items"] == 4
        assert row["flips"] == row["right_to_wrong"] + row["wrong_to_right"]


def test_a_model_that_was_never_run_is_predicted(fitted: Study, tmp_path_factory):
    predictor = fitted.folder / "results/demo/predictor.skops"
    kept = predictor.rename(fitted.folder / "kept.skops")
    fitted.use(write_tiny_model(tmp_path_factory.mktemp("other") / "other", seed=3))
    config = small(fitted, f"prediction.predictor={kept}")
    planned = fitted.run("--dry-run", "predict", config=config).stdout
    assert "attention" not in planned
    fitted.run("predict", config=config)
    found = rows(fitted, "predict")
    assert {(row["level"], row["features"]) for row in found} == {
        (level, features) for level in ("Q8_0", "Q2_K") for features in ("tda", "weight_error")
    }
    for row in found:
        assert 0 <= row["lower"] <= row["predicted"] <= row["upper"] <= 1
        assert len(row["worst_blocks"]) == 3
    said = (fitted.folder / "results/demo/tables/predict.md").read_text()
    assert "Trained on 1 model" in said
    assert "the model was not run" in said
    refused = fitted.run(
        "predict", config=small(fitted, f"prediction.predictor={kept}", "topology.threshold=0.7"),
        check=False,
    )  # fmt: skip
    assert "fitted with threshold 0.8, and this study has 0.7" in refused.stdout + refused.stderr
    lost = fitted.run("-n", "predict", config=small(fitted), check=False)
    assert "predict needs a predictor. Fit one: snakemake predictor" in lost.stdout + lost.stderr
