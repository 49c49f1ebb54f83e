"""Tables of prediction: how well agreement is foreseen, and the paper's Table II."""

import pyarrow as pa

from .behaviour import BOS, DATASET
from .io import Table, column
from .report import LEVEL, VARIANT
from .topology import BLOCK, INT, MODEL, REAL, SCHEME, TEXT

REGRESSOR = column("regressor", TEXT, "linear, forest or boosting")
FEATURES = column(
    "features", TEXT, "llm5, llm7, tda, combined (llm5 and tda), weight_error or level"
)
MATRICES = column("matrices", TEXT, "projections whose numbers are taken; all: none or all alike")
SPLIT = column(
    "split",
    TEXT,
    "folds: random and by_scheme leak; by_level leaves types of V in common, by_model none",
)
_JUDGED = (DATASET, BOS, SPLIT, REGRESSOR, FEATURES, MATRICES)
_KEY = ("dataset", "bos", "split", "regressor", "features", "matrices")

REGRESSORS = Table(
    kind="regressors",
    row="one regressor on one set of features, judged by one kind of folds",
    key=_KEY,
    schema=pa.schema(
        [
            *_JUDGED,
            column("r2", REAL, "R2 of all out-of-fold predictions of IoU together"),
            column("r2_folds", REAL, "mean of each fold's own R2", null=True),
            column("r2_folds_sd", REAL, "its standard deviation over folds", null=True),
            column("mae", REAL, "mean |predicted - measured| IoU"),
            column("n_rows", INT, "models x schemes x blocks"),
            column("n_features", INT, "columns"),
            column("n_folds", INT, "folds"),
        ]
    ),
)

PREDICTIONS = Table(
    kind="predictions",
    row="one block's agreement as a regressor foresees it that did not see its fold",
    key=(*_KEY, "model", "scheme", "block"),
    schema=pa.schema(
        [
            *_JUDGED,
            MODEL,
            SCHEME,
            BLOCK,
            column("fold", INT, "number of its fold"),
            column("measured", REAL, "mean top-k IoU over items"),
            column("predicted", REAL, "the same, out of fold"),
        ]
    ),
)

TOPOQUANT_TABLE_2 = Table(
    kind="topoquant_table_2",
    row="one cell of TopoQuant's Table II, ours and theirs, and ours by folds that do not leak",
    key=("regressor", "matrices", "dataset", "features"),
    schema=pa.schema(
        [
            REGRESSOR,
            MATRICES,
            column("dataset", TEXT, "id of ours, or the paper's schema where ours lack it"),
            FEATURES,
            column("ours", REAL, "R2 pooled, random folds: the paper's way", null=True),
            column("ours_by_scheme", REAL, "R2 pooled, folds by scheme", null=True),
            column("ours_by_level", REAL, "R2 pooled, folds by level", null=True),
            column("ours_by_model", REAL, "R2 pooled, one model left out", null=True),
            column("published", REAL, "as printed", null=True),
            column("difference", REAL, "ours - published, where they are comparable", null=True),
            column("status", TEXT, "reproduced, differs, not comparable, dash or lost"),
        ]
    ),
)

FORESEEN = Table(
    kind="foreseen",
    row="mean agreement of one level as a regressor foresees it that saw no such level or model",
    key=("features", "model", "level", "dataset"),
    schema=pa.schema(
        [
            FEATURES,
            MATRICES,
            REGRESSOR,
            SPLIT,
            MODEL,
            SCHEME,
            LEVEL,
            DATASET,
            BOS,
            column("predicted", REAL, "mean top-k IoU over blocks, cut to [0, 1]"),
            column("lower", REAL, "lower end of its conformal interval"),
            column("upper", REAL, "upper end"),
            column("coverage", REAL, "share of intervals that hold the truth, as promised"),
            column("measured", REAL, "mean top-k IoU over blocks and items"),
        ]
    ),
)

STOPPING = Table(
    kind="stopping",
    row="the level that a rule which never runs the model names as the lowest safe one",
    key=("model", "rule", "mark"),
    schema=pa.schema(
        [
            MODEL,
            column("rule", TEXT, "quiet, knee, or features of a regressor: its value or lower end"),
            column("mark", REAL, "mean IoU on every data set from which on a level is safe"),
            column("level", TEXT, "named: of fewest bits among those it calls safe", null=True),
            column("bits", REAL, "a weight, in full", null=True),
            column("iou", REAL, "measured at that level, on the worst data set", null=True),
            column("best_level", TEXT, "of fewest bits among those that are safe", null=True),
            column("best_bits", REAL, "a weight, in full", null=True),
            column("outcome", TEXT, "hit; early: a cheaper one would do; late: it is not safe"),
        ]
    ),
)

_FORECAST = (
    column("predicted", REAL, "mean top-k IoU, cut to [0, 1]; the model was not run"),
    column("lower", REAL, "lower end of the conformal interval"),
    column("upper", REAL, "upper end"),
)

PREDICTED_BLOCKS = Table(
    kind="predicted_blocks",
    row="agreement of one block under one scheme, as a saved predictor foresees it",
    key=("model", "scheme", "dataset", "features", "block"),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            LEVEL,
            VARIANT,
            DATASET,
            FEATURES,
            BLOCK,
            *_FORECAST,
            column("outside", TEXT, "first feature that leaves the training envelope", null=True),
        ]
    ),
)

PREDICT = Table(
    kind="predict",
    row="agreement of a model under one scheme on one data set, as a saved predictor foresees it",
    key=("model", "scheme", "dataset", "features"),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            LEVEL,
            VARIANT,
            column("bits", REAL, "a weight of Q, K and V, in full", unit="bit"),
            DATASET,
            FEATURES,
            *_FORECAST,
            column("coverage", REAL, "share of intervals that hold the truth, as promised"),
            column("worst_blocks", pa.list_(INT), "the three of least agreement, least first"),
            column("share_outside", REAL, "share of blocks outside the training envelope"),
            column("is_safe", pa.bool_(), "the lower end reaches the mark on every data set"),
        ]
    ),
)

FEATURE_IMPORTANCE = Table(
    kind="feature_importance",
    row="a feature, or several together, shuffled in rows that the regressor did not see",
    key=("dataset", "bos", "split", "regressor", "features", "matrices", "feature"),
    schema=pa.schema(
        [
            *_JUDGED,
            column("feature", TEXT, "column, or the group that is shuffled together"),
            column("n_columns", INT, "columns shuffled"),
            column("loss", REAL, "fall of R2 of all out-of-fold predictions, mean over shuffles"),
            column("loss_sd", REAL, "its standard deviation over shuffles"),
        ]
    ),
)
