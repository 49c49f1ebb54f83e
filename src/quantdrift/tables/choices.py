"""Tables of multiple choice: how likely each choice is, and accuracy beside the base's."""

import pyarrow as pa

from .behaviour import BOS, DATASET, ITEM, N_ITEMS, RUN
from .io import Table, column
from .report import LEVEL, VARIANT
from .topology import INT, MODEL, REAL, SCHEME, TEXT, names

CHOICES = Table(
    kind="choices",
    row="one choice of one item, as a model under one scheme scores it",
    key=(*names(RUN), "item", "choice"),
    schema=pa.schema(
        [
            *RUN,
            ITEM,
            column("choice", INT, "its number, from 0"),
            column("is_answer", pa.bool_(), "it is the right one"),
            column("n_tokens", INT, "tokens that are scored"),
            column(
                "n_characters", INT, "of the choice; null if all choices have one end", null=True
            ),
            column("token_sha256", TEXT, "first 16 digits, of the token ids"),
            column("log_likelihood", REAL, "sum of log p over its tokens", unit="nat"),
            column("is_greedy", pa.bool_(), "every token is the likeliest one at its place"),
        ]
    ),
)

_SE = "its standard error over items"
_PAIRED = "its standard error over items, paired"


def _measures(suffix: str, by: str, null: bool) -> list[pa.Field]:
    return [
        column(f"acc{suffix}", REAL, f"share of items answered rightly {by}", null=null),
        column(f"acc{suffix}_se", REAL, _SE, null=True),
        column(f"acc{suffix}_base", REAL, "the base's", null=null),
        column(f"acc{suffix}_difference", REAL, "quantized - base", null=null),
        column(f"acc{suffix}_difference_se", REAL, _PAIRED, null=True),
        column(
            f"right_to_wrong{suffix}", REAL, "share of items that the base alone gets", null=null
        ),
        column(f"wrong_to_right{suffix}", REAL, "share that the quantized alone gets", null=null),
        column(
            f"flips{suffix}", REAL, "share right under one alone (Dutta et al. 2024)", null=null
        ),
        column(f"changed{suffix}", REAL, "share of items with another answer chosen", null=null),
        column(f"mcnemar_p{suffix}", REAL, "exact McNemar test of equal accuracy", null=null),
    ]


ACCURACY_TABLE = Table(
    kind="accuracy_table",
    row="a model under one scheme on one data set, beside its base",
    key=("model", "scheme", "dataset"),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            LEVEL,
            VARIANT,
            DATASET,
            BOS,
            N_ITEMS,
            column("chance", REAL, "accuracy of answers drawn at random"),
            *_measures("", "by log-likelihood", null=False),
            *_measures(
                "_norm",
                "by log-likelihood a character; null where choices lie in contexts",
                null=True,
            ),
        ]
    ),
)

TABLES = {table.kind: table for table in (CHOICES,)}
