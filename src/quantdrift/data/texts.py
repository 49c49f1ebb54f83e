"""Texts that models are evaluated on, as the documents their source holds them in."""

from importlib import resources
from pathlib import Path

from .rows import DataError, file_rows, read_text

_PLAIN = (".txt", ".raw")


def own_text(name: str) -> list[str]:
    """A text written for this project, one document.

    Raises:
        DataError: there is none of that name.
    """
    file = resources.files("quantdrift.data") / f"{name}.txt"
    if not file.is_file():
        raise DataError(f"There is no text of ours called {name!r}.")
    return [file.read_text(encoding="utf-8")]


def documents(path: Path, field: str) -> list[str]:
    """The documents of a file: the lines of plain text, or a field of each row.

    Lines are as the hub holds those of WikiText: with their line end, empty where they are blank.

    Raises:
        DataError: the file cannot be read, or a row lacks the field.
    """
    if any(suffix in _PLAIN for suffix in path.suffixes[-2:]):
        lines = read_text(path).removesuffix("\n").split("\n")
        return [f"{line}\n" if line.strip() else "" for line in lines]
    texts = []
    for number, row in enumerate(file_rows(path)):
        text = row.get(field)
        if not isinstance(text, str):
            raise DataError(f"{path}, row {number}: it has no text in the field {field!r}.")
        texts.append(text)
    return texts
