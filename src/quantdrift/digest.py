"""A hash of the code behind a script: what makes Snakemake rerun a job when the library changes.

Snakemake watches the script it runs, not what the script imports. The digest covers the syntax
trees of the script and of every quantdrift module it reaches, without docstrings and comments: a
change in wording reruns nothing, a change in a formula reruns just the jobs that use it.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent


def digest(script: Path) -> str:
    """The digest of one script, 16 hexadecimal digits."""
    reached: dict[Path, str] = {}
    waiting = [script]
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached[file], imported = _parsed(file)
            waiting.extend(imported)
    return hashlib.sha256("\n".join(sorted(reached.values())).encode()).hexdigest()[:16]


@cache
def _parsed(file: Path) -> tuple[str, tuple[Path, ...]]:
    """A module's own hash, and the quantdrift modules that it imports."""
    tree = ast.parse(file.read_text(), str(file))
    imported = tuple(sorted(_imports(tree, file)))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return hashlib.sha256(f"{file.name} {ast.dump(tree)}".encode()).hexdigest(), imported


def _is_text(node: ast.AST) -> bool:
    """A docstring, or a string that documents a field."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _imports(tree: ast.AST, file: Path) -> set[Path]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = file.parent.relative_to(_PACKAGE.parent).parts
                above = above[: len(above) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return {module for name in names for module in _modules(name)}


def _modules(name: str) -> set[Path]:
    """The files that importing a dotted name runs: its module and the packages above it."""
    parts = name.split(".")
    if parts[0] != _PACKAGE.name:
        return set()
    found = set()
    for length in range(1, len(parts) + 1):
        path = _PACKAGE.parent.joinpath(*parts[:length])
        found.update(p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file())
    return found
