import numpy as np
import pandas as pd
import pytest

from quantdrift.prediction.features import (
    DISTANCES,
    MATRICES,
    FeatureError,
    columns_of,
    design,
    inputs,
    rows,
)

MODELS = pd.DataFrame({"model": ["m"], "family": ["llama"], "parameters": [1000]})
BITS = {"s-a": {"q": 4.0, "k": 4.0, "v": 6.0}, "s-b": {"q": 2.0, "k": 2.0, "v": 4.0}}


def tables(n_blocks: int = 3) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    distances, errors, agreement = [], [], []
    for scheme, bits in BITS.items():
        for block in range(n_blocks):
            at = {"model": "m", "scheme": scheme, "block": block}
            for dataset in ("arc", "hell"):
                about = {"level": "Q", "variant": "paper", "bos": "with", "iou": rng.random()}
                about |= {"iou_se": 0.01}
                agreement.append(at | {"dataset": dataset} | about)
            for role in "qkv":
                its = {"relative_frobenius": rng.random(), "bpw_claimed": bits[role]}
                errors.append(at | {"role": role} | its)
                for name in DISTANCES:
                    for filtration in ("clip", "full"):
                        its = {"filtration": filtration, "distance": name, "part": 0}
                        its |= {"role": role, "value": rng.random()}
                        distances.append(at | its | {"value_per_point": its["value"] / 10})
    return {
        "distances": pd.DataFrame(distances),
        "errors": pd.DataFrame(errors),
        "agreement": pd.DataFrame(agreement),
    }


def found(given: dict[str, pd.DataFrame], **changes) -> pd.DataFrame:
    asked = {"filtration": "clip", "per_point": False, "models": MODELS, "bos": "with"} | changes
    bos = asked.pop("bos")
    its = inputs(given["distances"], given["errors"], **asked)
    return rows(its, given["agreement"], bos=bos)


def test_distances_per_point_are_those_freed_of_growth():
    plain, freed = found(tables()), found(tables(), per_point=True)
    assert freed["k_pi"].to_numpy() == pytest.approx(plain["k_pi"].to_numpy() / 10)
    assert freed["k_error"].to_numpy() == pytest.approx(plain["k_error"].to_numpy())


def test_a_block_whose_agreement_alone_was_measured_is_named():
    given = tables()
    more = given["agreement"].iloc[:1].assign(block=7)
    given["agreement"] = pd.concat([given["agreement"], more])
    with pytest.raises(FeatureError, match="q_betti of m, scheme s-a, block 7"):
        found(given)


def test_every_feature_is_its_own_matrix_and_block():
    given = tables()
    table = found(given)
    assert len(table) == 2 * 3 * 2
    row = table.query("scheme == 's-a' and block == 1 and dataset == 'hell'").iloc[0]
    d = given["distances"].query(
        "scheme == 's-a' and block == 1 and role == 'k' and distance == 'pfd'"
    )
    assert row["k_pfd"] == d.loc[d["filtration"] == "clip", "value"].item()
    e = given["errors"].query("scheme == 's-a' and block == 1 and role == 'v'")
    assert row["v_error"] == e["relative_frobenius"].item()
    assert (row["bits"], row["v_bits"], row["third"]) == (4, 6, "middle")


def test_widths_are_the_papers():
    """RQ5: five columns without topology, 7, 14 or 21 with."""
    assert [len(columns_of("tda", name)) for name in MATRICES] == [7, 7, 7, 14, 14, 14, 21]
    llm5 = columns_of("llm5", "Q")
    assert [name for name in llm5 if "is_" not in name] == ["bits", "q_bits", "k_bits", "v_bits"]
    assert sum("is_" in name for name in llm5) == 2  # the fifth, one-hot
    assert columns_of("combined", "K") == [*llm5, *columns_of("tda", "K")]


def test_categories_are_one_hot():
    table = found(tables())
    X = design(table, "llm5", "Q")
    third = X[:, 4:]
    assert third.sum() == 8  # early and middle; late is neither
    both = pd.concat([table, table.assign(model="n", family="qwen2")], ignore_index=True)
    assert design(both, "llm7", "Q").shape[1] == 6 + 1 + 1


def test_parts_of_a_matrix_are_averaged():
    given = tables()
    twice = given["distances"].assign(part=1, value=given["distances"]["value"] + 1)
    given["distances"] = pd.concat([given["distances"], twice])
    assert found(given)["q_swd"].to_numpy() == pytest.approx(
        found(tables())["q_swd"].to_numpy() + 0.5
    )


def test_a_missing_block_is_named():
    given = tables()
    d = given["distances"]
    given["distances"] = d[~((d.scheme == "s-b") & (d.block == 2) & (d.role == "v"))]
    with pytest.raises(FeatureError, match="v_betti of m, scheme s-b, block 2 is missing"):
        found(given)


def test_nan_is_named():
    given = tables()
    given["errors"].loc[3, "relative_frobenius"] = np.nan
    with pytest.raises(FeatureError, match="q_error of m, scheme s-a, block 1"):
        found(given)


def test_nan_in_one_part_of_a_matrix_is_not_averaged_away():
    given = tables()
    twice = given["distances"].assign(part=1)
    twice.loc[twice.index[5], "value"] = np.nan
    given["distances"] = pd.concat([given["distances"], twice], ignore_index=True)
    clip = twice.loc[twice.index[5], "filtration"]
    with pytest.raises(FeatureError, match="q_landscape of m, scheme s-a, block 0 is missing"):
        found(given, filtration=clip)


def test_a_scheme_that_agreement_lacks_is_named():
    given = tables()
    given["agreement"] = given["agreement"].query("scheme != 's-b'")
    with pytest.raises(FeatureError, match="agreement of m, scheme s-b is missing"):
        found(given)


def test_a_role_that_was_not_measured_is_named():
    given = tables()
    given["distances"] = given["distances"].query("role != 'k'")
    with pytest.raises(FeatureError, match=r"no k_betti.*Put its role into `roles`"):
        found(given)


def test_what_is_predicted_must_have_been_measured():
    with pytest.raises(FeatureError, match="not measured without BOS"):
        found(tables(), bos="without")
    with pytest.raises(FeatureError, match="no filtration 'drop'"):
        found(tables(), filtration="drop")
