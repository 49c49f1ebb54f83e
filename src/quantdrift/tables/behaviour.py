"""Tables of the behaviour chapter: items, attended positions, and agreement with the base."""

import pyarrow as pa

from .io import Table, column
from .report import LEVEL, N_BLOCKS, VARIANT
from .topology import BLOCK, INT, MODEL, REAL, SCHEME, SEED, SHORT_ROWS, TEXT, names

DATASET = column("dataset", TEXT, "id of the data set")
ITEM = column("item", TEXT, "id of the item within its data set")
PRESET = column("preset", TEXT, "name of the agreement settings")
BOS = column("bos", TEXT, "`with`: one BOS token stands first; `without`: none does")
HEAD = column("head", INT, "query head; null for the mean over heads", null=True)
RUN = (MODEL, SCHEME, SHORT_ROWS, SEED, PRESET, DATASET, BOS)
N_TOKENS = column("n_tokens", INT, "tokens of the prompt, BOS included")
N_ELIGIBLE = column(
    "n_eligible", INT, "positions neither special, nor the query's own, nor out of its window"
)
N_ITEMS = column("n_items", INT, "items behind the row")

_ITEM_AND_BLOCK = [*RUN, ITEM, BLOCK, HEAD, N_TOKENS, N_ELIGIBLE]

ITEMS = Table(
    kind="items",
    row="one item of a data set, as lm-evaluation-harness puts it to a model",
    key=("dataset", "item"),
    schema=pa.schema(
        [
            DATASET,
            ITEM,
            column("number", INT, "place in the source, from 0"),
            column("prompt", TEXT, "what attention is measured on"),
            column("contexts", pa.list_(TEXT), "context of each choice"),
            column("continuations", pa.list_(TEXT), "text scored after it, for each choice"),
            column("answer", INT, "index of the right choice"),
        ]
    ),
)

ATTENTION = Table(
    kind="attention",
    row="what the last token of a prompt attends to in one block",
    key=(*names(RUN), "item", "block", "head"),
    schema=pa.schema(
        [
            *_ITEM_AND_BLOCK,
            column("token_sha256", TEXT, "first 16 digits, of the prompt's token ids"),
            column("positions", pa.list_(INT), "eligible positions of largest attention, in order"),
            column("tokens", pa.list_(INT), "token ids at those positions"),
            column("weights", pa.list_(pa.float32()), "attention they get"),
            column("masked", pa.float32(), "attention on special tokens and on the query itself"),
        ]
    ),
)

AGREEMENT = Table(
    kind="agreement",
    row="attention of one block on one item, quantized against base",
    key=(*names(RUN), "item", "block", "head"),
    schema=pa.schema(
        [
            *_ITEM_AND_BLOCK,
            column("top1", REAL, "1 if the most attended position is the same (TopoQuant eq. 11)"),
            column("iou", REAL, "intersection over union of the top-k positions (eq. 12-14)"),
            column("iou_tokens", REAL, "the same over token ids"),
            column("chance_top1", REAL, "top1 expected of positions drawn at random"),
            column("chance_iou", REAL, "iou expected of positions drawn at random"),
        ]
    ),
)

_STANDARD_ERROR = "its bootstrap standard error over items"
_SUMMARY = [
    column("top1", REAL, "share of items whose most attended position is the same"),
    column("top1_se", REAL, _STANDARD_ERROR),
    column("iou", REAL, "mean top-k IoU of positions (TopoQuant eq. 14)"),
    column("iou_se", REAL, _STANDARD_ERROR),
    column("iou_tokens", REAL, "mean top-k IoU of token ids"),
    column("chance_top1", REAL, "top1 of positions drawn at random"),
    column("chance_iou", REAL, "iou of positions drawn at random"),
    N_ITEMS,
]

AGREEMENT_BLOCKS = Table(
    kind="agreement_blocks",
    row="one block of a model under one scheme on one data set: mean over items",
    key=("model", "scheme", "dataset", "bos", "block"),
    schema=pa.schema([MODEL, SCHEME, LEVEL, VARIANT, DATASET, BOS, BLOCK, *_SUMMARY]),
)

AGREEMENT_TABLE = Table(
    kind="agreement_table",
    row="a model under one scheme on one data set: mean over blocks of the mean over items",
    key=("model", "scheme", "dataset", "bos"),
    schema=pa.schema([MODEL, SCHEME, LEVEL, VARIANT, DATASET, BOS, N_BLOCKS, *_SUMMARY]),
)

TABLES = {table.kind: table for table in (ITEMS, ATTENTION, AGREEMENT)}

TOPOQUANT_TABLE_1 = Table(
    kind="topoquant_table_1",
    row="one cell of TopoQuant's Table I, ours and theirs",
    key=("bos", "metric", "level", "model", "dataset"),
    schema=pa.schema(
        [
            BOS,
            column("metric", TEXT, "top1 or iou"),
            LEVEL,
            MODEL,
            column("dataset", TEXT, "id of ours, or the paper's name where ours lack it"),
            column("ours", REAL, "mean over blocks and items", null=True),
            column("ours_se", REAL, _STANDARD_ERROR, null=True),
            column("n_items", INT, "items behind ours", null=True),
            column("chance", REAL, "what positions drawn at random would reach", null=True),
            column("published", REAL, "as printed", null=True),
            column("difference", REAL, "ours - published, where they are comparable", null=True),
            column(
                "status",
                TEXT,
                "reproduced, differs, too few items, not comparable, not printed or lost",
            ),
        ]
    ),
)
