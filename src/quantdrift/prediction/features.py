"""What agreement is predicted from: one row a model, scheme, block and data set.

TopoQuant's features (section IV-D and RQ5): what is known of model and scheme without looking at a
weight, and seven topological distances for each of Q, K and V. Beside them ours: the plain
weight error, and the level alone, without which no topological feature can claim anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

ROLES = ("q", "k", "v")
MATRICES = ("Q", "K", "V", "KQ", "KV", "QV", "KQV")
"""Which projections' distances are taken; in the order of the paper's text."""
DISTANCES = ("betti", "entropy", "landscape", "pfd", "pi", "swd", "tswd")
_HERE = ["model", "scheme", "block"]
KEY = [*_HERE, "dataset"]
TARGET = "iou"
THIRDS = ("early", "middle", "late")
_BITS = [f"{role}_bits" for role in ROLES]


class FeatureError(ValueError):
    """Something to predict from is missing or undefined; the message names it."""


def inputs(
    distances: pd.DataFrame,
    errors: pd.DataFrame,
    *,
    filtration: str,
    per_point: bool,
    models: pd.DataFrame,
) -> pd.DataFrame:
    """Everything that agreement is predicted from, one row a model, scheme and block.

    Args:
        distances: the table `distances`; matrices that lie in parts (heads) are averaged.
        errors: the table `weight_error`.
        filtration: whose distances are taken.
        per_point: distances freed of their growth with the points of a cloud, for which models of
            several widths compare; else as they are, as the paper takes them.
        models: id, family and parameters of each model.

    Returns:
        model, scheme, block, `bits`, `q_bits`..., `third`, `family`, `parameters`, `q_swd`...
        and `q_error`...

    Raises:
        FeatureError: a block lacks a distance or an error of Q, K or V, or a number is not finite;
            the message names model, scheme, block and column.
    """
    its = distances[distances["filtration"] == filtration]
    if not len(its):
        raise FeatureError(f"distances hold no filtration {filtration!r}, which features are of.")
    value = "value_per_point" if per_point else "value"
    _check_finite(its, value)
    means = its.groupby([*_HERE, "role", "distance"])[value].mean().unstack(["role", "distance"])
    means.columns = [f"{role}_{name}" for role, name in means.columns]
    measured = [("relative_frobenius", "error"), ("bpw_claimed", "bits")]
    found = means.join([_per_role(errors, *names) for names in measured], how="outer").reset_index()
    n_blocks = found.groupby("model")["block"].transform("max") + 1
    place = (3 * found["block"] // n_blocks).astype(int)
    found["third"] = [THIRDS[at] for at in place]
    _check(found)
    found = found.assign(bits=found["q_bits"]).merge(models, on="model", how="left")
    return found.sort_values(_HERE, ignore_index=True)


def rows(inputs: pd.DataFrame, agreement: pd.DataFrame, *, bos: str) -> pd.DataFrame:
    """One row a model, scheme, block and data set: the target and everything it is predicted from.

    Args:
        inputs: what the function of that name gives.
        agreement: the table `agreement_blocks`.
        bos: whose agreement is predicted.

    Returns:
        The key, `iou`, `iou_se`, `variant`, `level`, and the columns of `inputs`.

    Raises:
        FeatureError: agreement was not measured so, is not finite, has blocks that inputs lack, or
            lacks a scheme of theirs.
    """
    target = agreement[agreement["bos"] == bos]
    if not len(target):
        raise FeatureError(f"agreement was not measured {bos} BOS, which is to be predicted.")
    kept = [*KEY, "level", "variant", TARGET, f"{TARGET}_se"]
    found = target[kept].merge(inputs, on=_HERE, how="left")
    _check(found, TARGET)
    seen = set(zip(target["model"], target["scheme"], strict=True))
    unseen = [one for one in zip(inputs["model"], inputs["scheme"], strict=True) if one not in seen]
    for model, scheme in unseen[:1]:
        raise FeatureError(
            f"agreement of {model}, scheme {scheme} is missing, and its drift is there: measure "
            "it, or leave that scheme out."
        )
    return found.sort_values(KEY, ignore_index=True)


def _per_role(table: pd.DataFrame, value: str, suffix: str) -> pd.DataFrame:
    means = table.groupby([*_HERE, "role"])[value].mean().unstack("role")
    return means.rename(columns=lambda role: f"{role}_{suffix}")


def _check_finite(distances: pd.DataFrame, value: str) -> None:
    """Before parts of a matrix are averaged, which would pass over what is missing in one."""
    bad = distances[~np.isfinite(distances[value].to_numpy(dtype=float))]
    for row in bad.head(1).to_dict("records"):
        raise _not_finite(f"{row['role']}_{row['distance']}", row)


def _not_finite(name: str, row: Mapping[str, Any]) -> FeatureError:
    return FeatureError(
        f"{name} of {row['model']}, scheme {row['scheme']}, block {row['block']} is missing or not "
        "finite: make its shard again, or leave that scheme out."
    )


def _check(found: pd.DataFrame, *more: str) -> None:
    wanted = [f"{role}_{name}" for role in ROLES for name in (*DISTANCES, "error", "bits")]
    for name in (*more, *wanted):
        role = name.partition("_")[0].upper()
        if name not in found:
            raise FeatureError(
                f"there is no {name}: regressors need all of Q, K and V and all seven distances, "
                f"and {role} lacks this one. Put its role into `roles`."
            )
        values = found[name].to_numpy(dtype=float)
        if not np.isfinite(values).all():
            raise _not_finite(name, found.loc[~np.isfinite(values)].iloc[0].to_dict())


def columns_of(group: str, matrices: str) -> list[str]:
    """The numeric columns of a group of features.

    Args:
        group: `llm5`, `llm7`, `tda`, `combined` (llm5 and tda), `weight_error` or `level`.
        matrices: Q, K, V or several; only `tda`, `combined` and `weight_error` heed it.
    """
    roles = matrices.lower()
    tda = [f"{role}_{name}" for role in roles for name in DISTANCES]
    base = ["bits", *_BITS, *(f"is_{third}" for third in THIRDS[:2])]
    groups = {
        "llm5": base,
        "llm7": [*base, "log_parameters", "family"],
        "tda": tda,
        "combined": [*base, *tda],
        "weight_error": [f"{role}_error" for role in roles],
        "level": ["bits"],
    }
    return groups[group]


def design(found: pd.DataFrame, group: str, matrices: str) -> np.ndarray:
    """The features of a group as numbers, shape (rows, columns).

    Bits are ordinal, as claimed by the level's name; the third of the model is one-hot (late is
    neither), the family one-hot, parameters as a logarithm.
    """
    encoded = found.assign(
        **{f"is_{third}": (found["third"] == third).astype(float) for third in THIRDS[:2]}
    )
    wanted = columns_of(group, matrices)
    if "log_parameters" in wanted:
        encoded["log_parameters"] = np.log10(found["parameters"].astype(float))
        families = sorted(set(found["family"]))
        named: Sequence[str] = [f"family_{family}" for family in families[1:]]
        for family, name in zip(families[1:], named, strict=True):
            encoded[name] = (found["family"] == family).astype(float)
        wanted = [name for name in wanted if name != "family"] + list(named)
    return encoded[wanted].to_numpy(dtype=float)
