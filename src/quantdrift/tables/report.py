"""Tables that people read: weight error and drift, summed up by scheme and role."""

import pyarrow as pa

from .io import Table, column
from .topology import INT, MODEL, REAL, ROLE, SCHEME, TEXT

LEVEL = column("level", TEXT, "nominal level of the scheme")
VARIANT = column("variant", TEXT, "how the scheme departs from one type for all roles")
TYPE = column("type", TEXT, "the type really used; several are joined by a comma")
N_BLOCKS = column("n_blocks", INT, "blocks behind the row")

WEIGHT_ERROR_TABLE = Table(
    kind="weight_error_table",
    row="one role of a model under one scheme: means over its blocks",
    key=("model", "scheme", "role"),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            LEVEL,
            VARIANT,
            ROLE,
            TYPE,
            N_BLOCKS,
            column("n_weights", pa.int64(), "weights of the role"),
            column("relative_frobenius", REAL, "||W - What||_F / ||W||_F (TopoQuant eq. 4)"),
            column("mae", REAL, "mean |W - What|"),
            column("cosine", REAL, "cosine of W and What as vectors"),
            column("bpw_claimed", REAL, "bits a weight by the level's name", unit="bit"),
            column("bpw_full", REAL, "bits a weight, every stored bit counted", unit="bit"),
        ]
    ),
)

PROJECTION_SENSITIVITY = Table(
    kind="projection_sensitivity",
    row="one role at one level, as `pure` quantizes it and as `paper` does",
    key=("model", "level", "role", "filtration"),
    schema=pa.schema(
        [
            MODEL,
            LEVEL,
            ROLE,
            column("filtration", TEXT, "clip, drop or full"),
            *(
                column(f"{name}_{variant}", kind, meaning, unit=unit, null=True)
                for variant in ("pure", "paper")
                for name, kind, meaning, unit in (
                    ("type", TEXT, f"the type that {variant} really uses", ""),
                    ("bpw_full", REAL, "its bits a weight, every stored bit counted", "bit"),
                    ("relative_frobenius", REAL, "its weight error", ""),
                    ("swd_mean", REAL, "its drift, mean over blocks", ""),
                    ("swd_per_point", REAL, "the same, freed of its growth with points", ""),
                )
            ),
            column("of_query", REAL, "swd_per_point_pure over that of q at this level", null=True),
            column(
                "spared_by_bits",
                REAL,
                "share of the drift under pure that the finer type of paper takes away",
                null=True,
            ),
        ]
    ),
)

BEYOND_ATTENTION = Table(
    kind="beyond_attention",
    row="the drift of one role under one scheme, from all of its rows or from a smaller cloud",
    key=("model", "scheme", "role", "filtration", "shortcut", "size"),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            LEVEL,
            VARIANT,
            ROLE,
            column("filtration", TEXT, "clip, drop or full"),
            column("shortcut", TEXT, "exact; rows: a sample of the points; rank: fewer dimensions"),
            column("size", INT, "points of a sample, dimensions; of exact the points"),
            N_BLOCKS,
            column("relative_frobenius", REAL, "weight error of the role"),
            column("swd_mean", REAL, "sliced Wasserstein distance, mean over blocks and draws"),
            column("swd_per_point", REAL, "the same, freed of its growth with points"),
            column("ratio", REAL, "swd_per_point over the exact one, mean", null=True),
            column("ratio_rms_error", REAL, "root mean square of that ratio less 1", null=True),
            column(
                "rank_correlation", REAL, "Spearman's over blocks, with the exact one", null=True
            ),
        ]
    ),
)

_WALL = "wall time of its jobs"

TOPOQUANT_TABLE_3 = Table(
    kind="topoquant_table_3",
    row="what one level costs: drift, attention agreement, and running the model",
    key=("model", "level"),
    schema=pa.schema(
        [
            MODEL,
            LEVEL,
            column("drift", REAL, f"diagrams and distances, {_WALL}", unit="s", null=True),
            column("attention", REAL, f"attention and agreement, {_WALL}", unit="s", null=True),
            column("downstream", REAL, f"perplexity and choices, {_WALL}", unit="s", null=True),
            column("base", REAL, "the base's own, once for all levels", unit="s", null=True),
            column("machine", TEXT, "what ours ran on, or where the printed numbers stand"),
            column("published_topoquant", REAL, "T as printed", unit="s", null=True),
            column("published_downstream", REAL, "D as printed", unit="s", null=True),
            column("drift_over_downstream", REAL, "drift / downstream", null=True),
            column("drift_share", REAL, "drift / (drift + downstream)", null=True),
            column("topoquant_over_downstream", REAL, "T / D, T with attention", null=True),
            column("topoquant_share", REAL, "T / (T + D), T with attention", null=True),
            column("status", TEXT, "other machines, models and data never compare"),
        ]
    ),
)

DRIFT_TABLE = Table(
    kind="drift_table",
    row="the drift of one role of a model under one scheme and filtration: over its blocks",
    key=("model", "scheme", "role", "filtration"),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            LEVEL,
            VARIANT,
            ROLE,
            column("filtration", TEXT, "clip, drop or full"),
            N_BLOCKS,
            column("swd_mean", REAL, "sliced Wasserstein distance, mean over blocks (eq. 6)"),
            column("swd_sd", REAL, "its standard deviation over blocks; null for one", null=True),
            column("swd_per_point", REAL, "swd_mean, freed of its growth with points"),
            column("bar_shift_mean", REAL, "mean |change of a sorted bar| / the base's mean bar"),
            column("bar_shift_max", REAL, "the same in the block where it is largest"),
            column("n_points", REAL, "points of a cloud"),
            column("n_finite_base", REAL, "finite bars at the threshold, base, a cloud"),
            column("n_finite", REAL, "finite bars at the threshold, quantized, a cloud"),
            column("n_essential_base", REAL, "points less finite bars, base, a cloud"),
            column("n_essential", REAL, "points less finite bars, quantized, a cloud"),
        ]
    ),
)
