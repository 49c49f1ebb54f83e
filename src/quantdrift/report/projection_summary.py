"""Is V robust, or does it get more bits? TopoQuant's limitation 4 as an experiment.

The paper's K-quants give V a finer type than Q and K. The variant `pure` gives all roles one type,
so at one level the projections stand side by side at equal bits, and V beside itself with more.
"""

import pandas as pd

from .names import Names

_KEY = ["model", "level", "role", "filtration"]
_OF = ["type", "bpw_full", "relative_frobenius", "swd_mean", "swd_per_point"]
PURE, PAPER = "_pure", "_paper"


def sensitivity_rows(drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The rows of `projection_sensitivity`, in the study's order.

    A level that the study measures in one variant only stands for the other, too, where its type is
    the level's own; else that side is empty.

    Args:
        drift: the table `drift_table`.
        errors: the table `weight_error_table`.
        names: of the study.
    """
    of_errors = [*_KEY[:3:2], "scheme", "type", "bpw_full", "relative_frobenius"]
    rows = names.described(drift).merge(errors[of_errors], on=["model", "scheme", "role"])
    is_pure = rows["variant"].eq("pure")
    has_own_type = rows["type"].str.upper() == rows["level"]
    sides = {
        PURE: pd.concat([rows[is_pure], rows[~is_pure & has_own_type]]),
        PAPER: pd.concat([rows[~is_pure], rows[is_pure & has_own_type]]),
    }
    pure, paper = (
        side.drop_duplicates(_KEY)[[*_KEY, *_OF]].rename(columns={n: n + suffix for n in _OF})
        for suffix, side in sides.items()
    )
    both = rows[_KEY].drop_duplicates().merge(pure, how="left").merge(paper, how="left")
    queries = both.loc[both["role"] == "q"].set_index(["model", "level", "filtration"])
    at = pd.MultiIndex.from_frame(both[["model", "level", "filtration"]])
    of_query = queries["swd_per_point_pure"].reindex(at).to_numpy()
    return both.assign(
        of_query=both["swd_per_point_pure"] / of_query,
        spared_by_bits=1 - both["swd_mean_paper"] / both["swd_mean_pure"],
    )
