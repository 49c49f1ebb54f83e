"""Tables of behaviour on text: documents, numbers by token, and perplexity and KL by scheme."""

import pyarrow as pa

from .io import Table, column
from .report import LEVEL, VARIANT
from .topology import INT, MODEL, REAL, SCHEME, SEED, SHORT_ROWS, TEXT, names

PROTOCOL = column("protocol", TEXT, "id of the protocol: text, windows, BOS")
TEXT_RUN = (MODEL, SCHEME, SHORT_ROWS, SEED, PROTOCOL)
TOKEN_HASH = column(
    "token_sha256", TEXT, "first 16 digits, of the windows' token ids and what counts in them"
)
_SMALL = pa.float32()

TEXTS = Table(
    kind="texts",
    row="one document of a protocol's text",
    key=("protocol", "number"),
    schema=pa.schema(
        [PROTOCOL, column("number", INT, "its place, from 0"), column("text", TEXT, "it")]
    ),
)

TOKENS = Table(
    kind="tokens",
    row="one predicted token of a text under one scheme, beside the base",
    key=(*names(TEXT_RUN), "window", "position"),
    schema=pa.schema(
        [
            *TEXT_RUN,
            TOKEN_HASH,
            column("window", INT, "number of the window, from 0"),
            column("position", INT, "of the predicted token in its window, BOS counted"),
            column("nll", _SMALL, "-log q(token); q: quantized", unit="nat"),
            column("nll_base", _SMALL, "-log p(token); p: base", unit="nat"),
            column("kl", _SMALL, "KL(p || q)", unit="nat"),
            column("jsd", _SMALL, "Jensen-Shannon divergence of p and q", unit="nat"),
            column("tv", _SMALL, "total variation, half the sum of |p - q|"),
            column("p_top_base", _SMALL, "p of the token that p holds most likely"),
            column("p_top", _SMALL, "q of that token"),
            column("same_top", _SMALL, "1 where p and q hold the same token most likely"),
        ]
    ),
)

_SE = "its standard error over windows"

PERPLEXITY_TABLE = Table(
    kind="perplexity_table",
    row="a model under one scheme on one text, beside its base",
    key=("model", "scheme", "protocol"),
    schema=pa.schema(
        [
            MODEL,
            SCHEME,
            LEVEL,
            VARIANT,
            PROTOCOL,
            TOKEN_HASH,
            column("n_windows", INT, "windows behind the row"),
            column("n_tokens", INT, "predicted tokens behind the row"),
            column("perplexity", REAL, "exp of the mean nll"),
            column("perplexity_se", REAL, _SE, null=True),
            column("perplexity_base", REAL, "the base's, on the same tokens"),
            column("log_ratio", REAL, "log(perplexity / perplexity_base)"),
            column("log_ratio_se", REAL, "its standard error, windows paired", null=True),
            column("nll_correlation", REAL, "of window means of nll and nll_base", null=True),
            column("kl", REAL, "mean KL(p || q)", unit="nat"),
            column("kl_se", REAL, _SE, null=True),
            column("kl_floor", REAL, "mean KL(base || base run again)", unit="nat"),
            column("kl_median", REAL, "median over tokens", unit="nat"),
            column("kl_90", REAL, "90 % of tokens lie below", unit="nat"),
            column("kl_99", REAL, "99 % of tokens lie below", unit="nat"),
            column("kl_99_9", REAL, "99.9 % of tokens lie below", unit="nat"),
            column("kl_max", REAL, "largest", unit="nat"),
            column("jsd", REAL, "mean Jensen-Shannon divergence", unit="nat"),
            column("tv", REAL, "mean total variation"),
            column("same_top", REAL, "share of tokens with the same most likely token"),
            column("same_top_se", REAL, _SE, null=True),
            column("dp", REAL, "mean change of the probability of the token that follows"),
            column("dp_rms", REAL, "its root mean square"),
            column("p_top_rms", REAL, "root mean square change of the base's top probability"),
            column("status", TEXT, "sound, or broken: more than ten times the base's perplexity"),
        ]
    ),
)

TABLES = {table.kind: table for table in (TEXTS, TOKENS)}
