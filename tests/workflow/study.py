"""A copy of the workflow and its library that a test may edit, with a tiny model to run on."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

ROOT = Path(__file__).parents[2]
COPIED = ("Snakefile", "workflow", "config", "envs", "profiles", "src")
SCHEMES = (
    "llamacpp-q8_0-paper",
    "llamacpp-q2_k-paper",
    "llamacpp-q2_k-pure",
)


def write_tiny_model(directory: Path, seed: int = 0) -> Path:
    """A random Llama with grouped queries, rows of low rank plus noise, 96 wide so that K-quants
    meet short rows."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=96,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=257,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    for name, weight in model.named_parameters():
        if "proj" in name:
            rows, columns = weight.shape
            weight.data += 0.05 * torch.randn(rows, 6) @ torch.randn(6, columns)
    model.save_pretrained(directory)
    byte_tokenizer().save_pretrained(directory)
    return directory


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and a BOS token: a tokenizer that needs no training."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0} | {letter: number for number, letter in enumerate(alphabet, 1)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


class Study:
    """One working directory, and snakemake in it."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        self.use(model)
        # The copy's library goes before the installed one; no cluster is asked whether it is there.
        self.environment = os.environ | {
            "PYTHONPATH": str(folder / "src"),
            "OMP_WAIT_POLICY": "passive",
        }

    @classmethod
    def new(cls, folder: Path, model: Path) -> "Study":
        """Nothing has run here yet."""
        folder.mkdir(exist_ok=True)
        for name in COPIED:
            source = ROOT / name
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignored)
            else:
                shutil.copyfile(source, folder / name)
        return cls(folder, model)

    @classmethod
    def copy(cls, finished: Path, folder: Path, model: Path) -> "Study":
        """As it stands in another folder, times of files included."""
        shutil.copytree(finished, folder, symlinks=True, dirs_exist_ok=True)
        return cls(folder, model)

    @property
    def model_id(self) -> str:
        """What the workflow calls a model given by its path."""
        digits = hashlib.sha256(str(self.model.resolve()).encode()).hexdigest()[:6]
        return f"{self.model.name}-{digits}"

    def use(self, model: Path) -> None:
        """Measure this model."""
        self.model = model
        self.config = [
            "--config",
            "study=demo",
            "set="
            + str(
                [
                    f"models=[{model}]",
                    f"schemes=[{','.join(SCHEMES)}]",
                    "roles=[q,v]",
                    f"gauge.schemes=[{SCHEMES[1]}]",
                    "gauge.seeds=[0,1]",
                    "gauge.block_step=1",
                    "datasets=[own-arc,own-winogrande]",
                    "agreement.items=5",
                    "blocks_per_job=2",
                ]
            ),
        ]

    def command(self, *words: str, config: list[str] | None = None) -> list[str]:
        tail = self.config if config is None else config
        return [sys.executable, "-m", "snakemake", "--cores", "2", *words, *tail]

    def start(self) -> subprocess.Popen[bytes]:
        """A run in the background, leader of a process group of its own."""
        return subprocess.Popen(
            self.command("--rerun-incomplete"),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def unlock(self) -> subprocess.CompletedProcess[str]:
        """What `make demo` does before it runs."""
        return subprocess.run(
            [sys.executable, "workflow/unlock.py"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(
        self, *words: str, config: list[str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words, config=config),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{done.args}\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}")
        return done

    def planned(self, *words: str, set_also: tuple[str, ...] = ()) -> dict[str, int]:
        """How many jobs of each rule a dry run plans."""
        config = [*self.config]
        if set_also:
            config[-1] = config[-1].rstrip("]") + "".join(f",{word!r}" for word in set_also) + "]"
        done = self.run("--dry-run", *words, config=config)
        counts: dict[str, int] = {}
        lines = iter((done.stdout + done.stderr).splitlines())
        for line in lines:
            if line.startswith("job ") and "count" in line:
                next(lines)
                counts = {}
                for row in lines:
                    if not row.strip():
                        break
                    name, count = row.split()
                    counts[name] = int(count)
        return counts

    def tables(self) -> dict[str, bytes]:
        """Every Parquet file of deterministic measures, by path."""
        results = self.folder / "results"
        return {
            str(path.relative_to(results)): path.read_bytes()
            for path in sorted(results.rglob("*.parquet"))
            if path.stem not in ("timings", "topoquant_table_3")
        }
