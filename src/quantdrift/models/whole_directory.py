"""A directory that appears when it is whole, or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_directory(directory: Path) -> Iterator[Path]:
    """A hidden directory to work in; it becomes `directory` if the work ends without an error.

    Whatever stood there is removed first.
    """
    shutil.rmtree(directory, ignore_errors=True)
    unfinished = directory.with_name(f".{directory.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
