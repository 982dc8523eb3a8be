"""The import rule: arrows point inward, and the core needs nothing but the standard library."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "headway"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def run_contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter in a folder that holds pyproject.toml and src/headway."""
    linter = Path(sysconfig.get_path("scripts")) / "lint-imports"
    return subprocess.run(
        [linter, "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def outside_imports(folder: Path, allowed: frozenset[str]) -> list[str]:
    """Imports of top-level modules neither ours, nor of the standard library, nor allowed."""
    found = []
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names = [node.module]
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names | allowed | {"headway"}:
                    found.append(f"{file.relative_to(folder)}:{node.lineno} {name}")
    return found


def test_contracts_hold() -> None:
    result = run_contracts(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken" in result.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("core", "config"),
        ("policies", "cost"),
        ("policies", "predict"),
        ("policies", "sim"),
        ("sim", "models"),
        ("sim", "predict"),
        ("sim", "live"),
        ("live", "sim"),
        ("live", "policies"),
        ("workload", "cost"),
        ("cli", "policies"),
        ("bounds", "wiring"),
        ("wiring", "scale"),
        ("scale", "sim"),
    ],
)
def test_contracts_refuse_an_import_hidden_in_a_function(
    tmp_path: Path, importer: str, imported: str
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "src" / "headway", ignore=shutil.ignore_patterns("__pycache__"))
    offender = tmp_path / "src" / "headway" / importer / "offender.py"
    offender.write_text(f"def late():\n    import headway.{imported}\n    return headway.{imported}\n")

    result = run_contracts(tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    assert f"headway.{importer} is not allowed to import headway.{imported}" in result.stdout


def test_every_package_has_its_contract() -> None:
    packages = {f"headway.{file.parent.name}" for file in PACKAGE.glob("*/__init__.py")}
    ruled = {module for contract in CONTRACTS for module in contract["source_modules"]}
    assert packages <= ruled


@pytest.mark.parametrize(
    ("package", "allowed"), [("core", frozenset[str]()), ("policies", frozenset({"numpy"}))]
)
def test_inner_packages_take_nothing_else_from_outside(package: str, allowed: frozenset[str]) -> None:
    assert list((PACKAGE / package).glob("*.py"))
    assert outside_imports(PACKAGE / package, allowed) == []


def test_an_outside_import_is_found(tmp_path: Path) -> None:
    (tmp_path / "offender.py").write_text(
        "import json, numpy.linalg\n\ndef late():\n    from yaml import load\n"
    )
    assert outside_imports(tmp_path, frozenset()) == ["offender.py:1 numpy.linalg", "offender.py:4 yaml"]
    assert outside_imports(tmp_path, frozenset({"numpy"})) == ["offender.py:4 yaml"]
