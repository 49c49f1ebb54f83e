from pathlib import Path

import pytest

from quantdrift import digest

FILES = {
    "tinypkg/__init__.py": '"""A package."""\n',
    "tinypkg/formula.py": '''"""Formulas."""

SCALE = 2.0


def formula(x):
    """Doubles."""
    return SCALE * x  # not three times
''',
    "tinypkg/middle.py": """from .formula import formula


def middle(x):
    return formula(x) + 1
""",
    "tinypkg/unrelated.py": "def unrelated():\n    return 1\n",
    "tinypkg/late.py": "def late():\n    return 1\n",
    "tinypkg/deep/__init__.py": "DEPTH = 1\n",
    "tinypkg/deep/inner.py": "from .. import beside\nfrom ..middle import middle\n",
    "tinypkg/beside.py": "VALUE = 1\n",
    "script.py": """import numpy as np
from tinypkg.deep import inner


def main():
    from tinypkg.late import late

    return inner.middle(np.pi) + late()
""",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in the place of quantdrift, that tests may change."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(digest, "_PACKAGE", tmp_path / "tinypkg")
    digest._parsed.cache_clear()
    yield tmp_path
    digest._parsed.cache_clear()


def digest_after(package: Path, name: str, old: str, new: str) -> str:
    content = (package / name).read_text()
    assert old in content
    (package / name).write_text(content.replace(old, new))
    digest._parsed.cache_clear()
    return digest.digest(package / "script.py")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tinypkg/formula.py", '"""Doubles."""', '"""Makes twice as much.\n\n    At least."""'),
        ("tinypkg/formula.py", '"""Formulas."""', ""),
        ("tinypkg/formula.py", "  # not three times", ""),
        ("tinypkg/formula.py", "SCALE * x", "(\n        SCALE\n        * x\n    )"),
        ("tinypkg/formula.py", "SCALE = 2.0\n", 'SCALE = 2.0\n"""By how much."""\n\n\n'),
        ("tinypkg/__init__.py", "A package", "The package"),
        ("tinypkg/unrelated.py", "return 1", "return 2"),
        ("script.py", "def main", "# starts here\ndef main"),
    ],
)
def test_wording_format_and_unrelated_modules_do_not_count(package, name, old, new):
    before = digest.digest(package / "script.py")
    assert digest_after(package, name, old, new) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("script.py", "+ late()", "- late()"),
        ("tinypkg/deep/inner.py", "import middle", "import middle as other"),
        ("tinypkg/__init__.py", '"""A package."""', "import os"),
        ("tinypkg/deep/__init__.py", "DEPTH = 1", "DEPTH = 2"),
        ("tinypkg/middle.py", "+ 1", "+ 2"),  # by `from ..middle import`
        ("tinypkg/formula.py", "SCALE * x", "SCALE + x"),  # through middle
        ("tinypkg/formula.py", "SCALE = 2.0", "SCALE = 2.5"),
        ("tinypkg/beside.py", "VALUE = 1", "VALUE = 2"),  # by `from .. import`
        ("tinypkg/late.py", "return 1", "return 2"),  # imported inside a function
    ],
)
def test_a_change_in_what_is_reached_counts(package, name, old, new):
    before = digest.digest(package / "script.py")
    after = digest_after(package, name, old, new)
    assert after != before
    assert digest_after(package, name, new, old) == before


def test_an_import_may_be_written_in_full(package):
    before = digest.digest(package / "script.py")
    (package / "script.py").write_text("import tinypkg.middle\n")
    digest._parsed.cache_clear()
    other = digest.digest(package / "script.py")
    assert other != before
    assert digest_after(package, "tinypkg/formula.py", "2.0", "3.0") != other


def test_circles_end(package):
    (package / "tinypkg/formula.py").write_text("import tinypkg.middle\n")
    digest._parsed.cache_clear()
    assert len(digest.digest(package / "script.py")) == 16


def test_the_digest_does_not_depend_on_where_the_package_lies(
    package, tmp_path_factory, monkeypatch
):
    before = digest.digest(package / "script.py")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "clone"
    package.rename(elsewhere)
    monkeypatch.setattr(digest, "_PACKAGE", elsewhere / "tinypkg")
    assert digest.digest(elsewhere / "script.py") == before


def test_real_scripts_reach_what_they_use():
    scripts = Path(__file__).parents[1] / "workflow/scripts"
    digests = {script.name: digest.digest(script) for script in scripts.glob("*.py")}
    assert len(set(digests.values())) == len(digests)
