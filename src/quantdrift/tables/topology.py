"""Tables of the first chapter: tensors, weight error and bits, diagrams, distances, gauges."""

import pyarrow as pa

from .io import Table, column

TEXT, INT, REAL = pa.string(), pa.int32(), pa.float64()

MODEL = column("model", TEXT, "model id")
SCHEME = column("scheme", TEXT, "scheme id; `base` is the model as it came")
SHORT_ROWS = column(
    "short_rows", TEXT, "what is done with rows a type's blocks do not divide", null=True
)
SEED = column("seed", INT, "seed of a randomised scheme; null where there is none", null=True)
BLOCK = column("block", INT, "transformer block, from 0")
ROLE = column("role", TEXT, "projection: q, k, v, o, gate, up or down")
PRESET = column("preset", TEXT, "name of the topology settings")
PART = column("part", INT, "head, where points are the rows of one head; else 0")
N_POINTS = column("n_points", INT, "points of the cloud")
MATRIX = (MODEL, SCHEME, SHORT_ROWS, SEED, BLOCK, ROLE)
CLOUD = (MODEL, SCHEME, SHORT_ROWS, SEED, PRESET, BLOCK, ROLE, PART)


def names(columns: tuple[pa.Field, ...]) -> tuple[str, ...]:
    """The names of columns, to be a key."""
    return tuple(field.name for field in columns)


TENSORS = Table(
    kind="tensors",
    row="one tensor of a model as it is measured",
    key=("model", "tensor"),
    schema=pa.schema(
        [
            MODEL,
            column("tensor", TEXT, "Hugging Face name"),
            column("role", TEXT, "role of a weight matrix; null for norms and biases", null=True),
            column("block", INT, "transformer block, from 0; null outside", null=True),
            column("shape", pa.list_(pa.int64()), "rows, columns"),
            column("dtype", TEXT, "as stored"),
            column("file", TEXT, "safetensors file that holds it"),
            column("sha256", TEXT, "of the stored bytes"),
            column("on_lattice", pa.bool_(), "values lie on the lattice of a quantized source"),
        ]
    ),
)

WEIGHT_ERROR = Table(
    kind="weight_error",
    row="one weight matrix under one scheme",
    key=names(MATRIX),
    schema=pa.schema(
        [
            *MATRIX,
            column("type", TEXT, "the type really used"),
            column("n_weights", pa.int64(), "weights of the matrix"),
            column("relative_frobenius", REAL, "||W - What||_F / ||W||_F (TopoQuant eq. 4)"),
            column("mae", REAL, "mean |W - What|"),
            column("max_abs", REAL, "max |W - What|"),
            column("cosine", REAL, "cosine of W and What as vectors"),
            column("bpw_claimed", REAL, "bits a weight by the level's name", unit="bit"),
            column("bpw_full", REAL, "bits a weight, every stored bit counted", unit="bit"),
        ]
    ),
)

LEDGER = Table(
    kind="ledger",
    row="one kind of stored bits of one quantized matrix",
    key=(*names(MATRIX), "entry"),
    schema=pa.schema(
        [
            *MATRIX,
            column("entry", TEXT, "what is stored: indices, scales, minima, ..."),
            column("bits", pa.int64(), "stored bits", unit="bit"),
        ]
    ),
)

DIAGRAMS = Table(
    kind="diagrams",
    row="the H0 diagram of one cloud of weights",
    key=names(CLOUD),
    schema=pa.schema(
        [
            *CLOUD,
            N_POINTS,
            column("n_rows", INT, "points before sampling"),
            column("deaths", pa.list_(REAL), "sorted deaths of the finite bars, uncensored"),
        ]
    ),
)

_BARS = "finite bars at the threshold, as Ripser counts them"
DISTANCES = Table(
    kind="distances",
    row="one distance between the diagrams of a matrix before and after quantization",
    key=(*names(CLOUD), "filtration", "distance"),
    schema=pa.schema(
        [
            *CLOUD,
            column("filtration", TEXT, "clip, drop or full"),
            column("distance", TEXT, "betti, entropy, landscape, pfd, pi, swd or tswd"),
            column("value", REAL, "the distance"),
            column("value_per_point", REAL, "the distance, freed of its growth with points"),
            N_POINTS,
            column("n_finite_base", INT, _BARS + ", base"),
            column("n_finite", INT, _BARS + ", quantized"),
            column("n_essential_base", INT, "points less finite bars, base"),
            column("n_essential", INT, "points less finite bars, quantized"),
        ]
    ),
)

GAUGE_DRIFT = Table(
    kind="gauge_drift",
    row="the drift of one matrix in one gauge",
    key=(
        "model",
        "scheme",
        "short_rows",
        "preset",
        "gauge_seed",
        "block",
        "role",
        "part",
        "filtration",
    ),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            SHORT_ROWS,
            PRESET,
            column("gauge_seed", INT, "seed of the gauge the matrix was moved to"),
            BLOCK,
            ROLE,
            PART,
            column("filtration", TEXT, "clip, drop or full"),
            column("swd", REAL, "sliced Wasserstein distance"),
        ]
    ),
)

SHORTCUTS = Table(
    kind="shortcuts",
    row="the drift of one matrix from a smaller cloud, or from all of it",
    key=(
        *names((MODEL, SCHEME, SHORT_ROWS, SEED, PRESET, BLOCK, ROLE)),
        "shortcut",
        "size",
        "draw",
        "filtration",
    ),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            SHORT_ROWS,
            SEED,
            PRESET,
            BLOCK,
            ROLE,
            column("shortcut", TEXT, "exact; rows: a sample of the points; rank: fewer dimensions"),
            column("size", INT, "points of a sample, dimensions; of exact the points"),
            column("draw", INT, "seed of the sample; null where nothing is drawn", null=True),
            column("filtration", TEXT, "clip, drop or full"),
            column("swd", REAL, "sliced Wasserstein distance"),
            column("swd_per_point", REAL, "swd, freed of its growth with points"),
        ]
    ),
)

TIMINGS = Table(
    kind="timings",
    row="one job",
    key=("stage", "job"),
    schema=pa.schema(
        [
            column("stage", TEXT, "rule"),
            column("job", TEXT, "path of its log"),
            column("seconds", REAL, "wall time of the job", unit="s"),
            column("cpu_seconds", REAL, "processor time of the job", unit="s", null=True),
            column("peak_mib", REAL, "peak resident memory", unit="MiB", null=True),
            column("machine", TEXT, "processor it ran on, and the GPU if it used one"),
        ]
    ),
)

TABLES = {
    table.kind: table
    for table in (
        TENSORS,
        WEIGHT_ERROR,
        LEDGER,
        DIAGRAMS,
        DISTANCES,
        GAUGE_DRIFT,
        SHORTCUTS,
        TIMINGS,
    )
}
