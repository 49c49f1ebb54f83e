"""Predictors as files: written whole, read only if every type in them is one we put there.

skops stores scikit-learn objects without pickle: reading runs no code of the file's. What is not
plain data or scikit-learn's own must be in `KNOWN`, or the file is refused.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import skops.io

from quantdrift.prediction.predictor import SCHEMA, Part, Predictor, PredictorError

from .io import write_bytes

KNOWN = {"sklearn.tree._tree.Tree", "xgboost.core.Booster", "xgboost.sklearn.XGBRegressor"}
"""What the three regressors hold beside scikit-learn's estimators and plain data."""
_ADVICE = "make one with `snakemake predictor --config study=prediction`"


def write_predictor(predictor: Predictor, path: Path, provenance: Mapping[str, Any]) -> None:
    """One file."""
    plain = {one.name: getattr(predictor, one.name) for one in fields(Predictor)}
    parts = [{one.name: getattr(part, one.name) for one in fields(Part)} for part in plain["parts"]]
    plain |= {"parts": parts, "envelope": {k: list(v) for k, v in plain["envelope"].items()}}
    write_bytes(skops.io.dumps(plain | {"provenance": dict(provenance)}), path)


def read_predictor(path: Path) -> tuple[Predictor, dict[str, Any]]:
    """The predictor and its provenance.

    Raises:
        PredictorError: it is no such file, holds a type that we did not put there, or is of
            another schema; the message names path and cause.
    """
    data = path.read_bytes()
    try:
        foreign = sorted(set(skops.io.get_untrusted_types(data=data)) - KNOWN)
        if foreign:
            raise PredictorError(
                f"{path} holds the type {foreign[0]}, which no predictor of ours does: it is not "
                f"opened; {_ADVICE}."
            )
        plain = skops.io.loads(data, trusted=sorted(KNOWN))
    except PredictorError:
        raise
    except Exception as error:  # whatever a damaged archive makes of it
        raise PredictorError(f"{path} is no predictor ({error}); {_ADVICE}.") from error
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        has = plain.get("schema") if isinstance(plain, dict) else None
        raise PredictorError(
            f"{path} is a predictor of schema {has}, and this version reads {SCHEMA}: {_ADVICE}."
        )
    made = plain.pop("provenance")
    missing = sorted({one.name for one in fields(Predictor)} ^ plain.keys())
    if missing:
        raise PredictorError(f"{path} and this version disagree about {missing[0]}: {_ADVICE}.")
    plain["parts"] = [Part(**part) for part in plain["parts"]]
    plain["envelope"] = {name: tuple(ends) for name, ends in plain["envelope"].items()}
    return Predictor(**plain), made
