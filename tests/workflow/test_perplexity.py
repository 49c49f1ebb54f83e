"""Perplexity and KL through the workflow: what is planned, an oracle by hand, what is refused."""

import gguf
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from study import SCHEMES, Study
from transformers import AutoModelForCausalLM, AutoTokenizer

from quantdrift.data.texts import own_text

pytestmark = pytest.mark.workflow


def table(study: Study, name: str) -> list[dict]:
    return pq.ParquetFile(study.folder / f"results/demo/tables/{name}.parquet").read().to_pylist()


def test_the_table_makes_no_more_than_it_needs(new_study):
    planned = new_study().planned("perplexity_table")
    assert planned["tokens"] == len(SCHEMES) + 1
    assert planned["reference"] == planned["text"] == 1
    assert not {"diagrams", "distances", "weight_error", "attention", "report"} & planned.keys()


def test_perplexity_and_kl_equal_a_computation_by_hand(finished: Study):
    """Weights quantized by the gguf package, transformers' own loss, KL by NumPy in float64."""
    base, quantized = (AutoModelForCausalLM.from_pretrained(finished.model) for _ in range(2))
    for name, weight in quantized.named_parameters():
        if "proj" in name:
            packed = gguf.quantize(weight.detach().numpy(), gguf.GGMLQuantizationType.Q8_0)
            weight.data = torch.from_numpy(gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0))
    tokenizer = AutoTokenizer.from_pretrained(finished.model)
    ids = tokenizer(own_text("sample")[0], add_special_tokens=False)["input_ids"][:1024]
    losses, kls = [], []
    for start in range(0, 1024, 256):
        window = torch.tensor([ids[start : start + 256]])
        with torch.no_grad():
            losses.append(float(quantized(window, labels=window).loss))
            log_p, log_q = (
                torch.log_softmax(model(window).logits[0, :-1].double(), -1).numpy()
                for model in (base, quantized)
            )
        kls.append(float((np.exp(log_p) * (log_p - log_q)).sum(1).mean()))
    (row,) = (r for r in table(finished, "perplexity_table") if r["scheme"] == SCHEMES[0])
    assert row["perplexity"] == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)
    assert row["kl"] == pytest.approx(np.mean(kls), rel=1e-2)
    assert (row["n_windows"], row["n_tokens"]) == (4, 4 * 255)


def test_the_floor_is_zero_and_coarse_levels_lie_far_above(finished: Study):
    rows = {row["scheme"]: row for row in table(finished, "perplexity_table")}
    assert set(rows) == set(SCHEMES)
    for row in rows.values():
        assert row["kl_floor"] == 0
        assert row["kl"] > 0
    assert rows["llamacpp-q2_k-paper"]["kl"] > 10 * rows["llamacpp-q8_0-paper"]["kl"]


def test_the_page_says_what_reading_costs(finished: Study):
    page = (finished.folder / "results/demo/report.html").read_text()
    assert "Perplexity and divergence" in page
    assert "on 1,024 tokens of our own text: Q8_0 perplexity" in page


def test_a_study_without_protocols_says_which_has_some(new_study):
    study = new_study()
    failed = study.run(
        "--dry-run", "perplexity_table", config=["--config", "study=topoquant"], check=False
    )
    assert failed.returncode != 0
    assert "study topoquant names no protocols" in failed.stdout + failed.stderr


def test_a_text_that_is_too_short_is_named(new_study):
    study = new_study()
    protocol = study.folder / "config/protocol/sample.yaml"
    protocol.write_text(protocol.read_text().replace("window: 256", "window: 2048"))
    failed = study.run("perplexity_table", check=False)
    said = failed.stdout + failed.stderr
    assert failed.returncode != 0
    assert "the text has 1024 tokens, and one window needs 2048" in said
