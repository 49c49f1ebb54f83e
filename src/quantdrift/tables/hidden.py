"""Final hidden states of a base model on a text: what every scheme is held against.

One NumPy file of shape (window, token, hidden) in float32, written window by window and whole or
not at all; a JSON file beside it says what it was made from.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.lib.format import open_memmap

States = Float[np.ndarray, "window token hidden"]


class HiddenError(ValueError):
    """Hidden states that are not those of this text and base; the message says what to delete."""


def write_hidden(
    batches: Iterable[States], n_windows: int, path: Path, made: Mapping[str, Any]
) -> None:
    """Write batches of windows, in order; the record beside the file is written first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    file, done = None, 0
    for batch in batches:
        if file is None:
            file = open_memmap(temporary, "w+", np.float32, (n_windows, *batch.shape[1:]))
        file[done : done + len(batch)] = batch
        done += len(batch)
    assert file is not None
    assert done == n_windows, "windows are missing"
    file.flush()
    del file
    record = path.with_suffix(".json")
    record.write_text(json.dumps(dict(made), sort_keys=True))
    temporary.replace(path)


def read_hidden(path: Path, expected: Mapping[str, Any]) -> States:
    """The states, mapped and not loaded.

    Raises:
        HiddenError: they were made of another text, in another type or on another device.
    """
    made = json.loads(path.with_suffix(".json").read_text())
    for name, value in expected.items():
        if made.get(name) != value:
            raise HiddenError(
                f"{path} was made with {name} {made.get(name)!r}, and this job has {value!r}: "
                "what is compared must be run alike. Delete the file and run again."
            )
    return np.load(path, mmap_mode="r")
