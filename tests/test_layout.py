"""Facts about the repository that are easily broken and cost hours when they are."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGE_DIRS: dict[str, str] = PYPROJECT["tool"]["setuptools"]["package-dir"]
CODE = ("domain", "projections", "ledger", "grpc", "client", "cli", "examples")
MODULE_LINES_MAX = 600
TEST_LINES_MAX = 900
"""A chapter of rules is tested in one place."""


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


TRACKED = _tracked()
OWN_CODE = [p for p in TRACKED if p.suffix == ".py" and "_gen" not in p.parts and "project" not in p.parts]


def test_grpc_has_no_init() -> None:
    """With one, Python started in the root would take the folder for the gRPC package."""
    assert not (ROOT / "grpc" / "__init__.py").exists()
    found = subprocess.run(
        [sys.executable, "-c", "import grpc; print(grpc.__file__, hasattr(grpc, 'insecure_channel'))"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "site-packages" in found.stdout
    assert found.stdout.endswith("True\n")


def test_no_folder_hides_the_package() -> None:
    """A top-level folder of the package's name would hide the installed one."""
    assert not (ROOT / "turnledger").exists()


def test_every_folder_of_code_is_packaged() -> None:
    """The list of packages is explicit; none is forgotten."""
    folders = {
        str(p.parent.relative_to(ROOT)) for p in TRACKED if p.suffix == ".py" and p.relative_to(ROOT).parts[0] in CODE
    }
    folders = {f for f in folders if "flaky_hunt/project" not in f}
    assert folders == set(PACKAGE_DIRS.values())
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == set(PACKAGE_DIRS)


def test_every_portion_is_typed() -> None:
    """A namespace package has a marker in every portion."""
    tops = {path for name, path in PACKAGE_DIRS.items() if name.count(".") == 1}
    assert [path for path in sorted(tops) if not (ROOT / path / "py.typed").exists()] == []


@pytest.mark.parametrize("path", OWN_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_is_about_one_thing(path: Path) -> None:
    """Long modules are about several things; unfinished ones are not committed."""
    text = path.read_text()
    assert text.count("\n") <= (TEST_LINES_MAX if "tests" in path.parts else MODULE_LINES_MAX)
    assert not re.search(r"\b(TO" "DO|FIX" "ME|X" "XX)\\b", text)
    # From the root this would make second classes of the same name.
    assert not re.search(r"^\s*(from|import) (domain|projections|ledger|client|cli|examples)\b", text, re.MULTILINE)


def test_the_project_names_no_machine_and_no_registry() -> None:
    """It installs from wherever the reader's package client does, in any folder."""
    words = re.compile(r"/wo" r"rk/|/ro" r"ot/|py" r"pi\.org|pytho" r"nhosted|npmj" r"s\.org")
    found = [p for p in TRACKED if p.suffix not in (".gz", ".binpb") and words.search(p.read_text(errors="replace"))]
    assert found == []
