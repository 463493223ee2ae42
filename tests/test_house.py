"""What keeps the tree readable: no import cycles, few lazy imports, one meaning per class name."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import elastune

pytestmark = pytest.mark.xdist_group("source")  # parsed once

SOURCE = Path(elastune.__file__).parent

# Imports of our own code inside functions: of modules that load a heavy library, and by registries.
LAZY = {
    ("checks.phases", "data.partition_cache"),  # pyarrow and others, which only partitioned data need
    ("providers.ec2.inventory", "providers.ec2.api"),  # boto3
    ("providers.remote.node", "providers.local.head"),  # Ray
    ("runtime.ray.fork_server", "runtime.ray.slot"),  # after the fork
    ("runtime.ray.fork_server", "training.running"),  # after the fork
    ("runtime.ray.member", "runtime.ray.visitor"),  # pyarrow and others, which only partitioned data need
    ("runtime.ray.slot", "data.partition_cache"),
    ("runtime.ray.slot", "runtime.ray.visitor"),
    ("space.model_sampler", "space.optuna_models"),  # optuna
    ("space.study_sampler", "space.optuna_models"),
    ("training.running", "training.torch_group"),  # torch
}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def modules() -> dict[str, ast.Module]:
    return {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


@functools.cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Of a module, walked once for all tests."""
    return tuple(ast.walk(tree))


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The modules of ours that are imported by one of these, by name."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elastune."):
            module = (node.module or "").removeprefix("elastune.")
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in modules() else module


def lazy_imports(tree: ast.Module) -> Iterator[str]:
    """Of nested functions once more."""
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(ast.walk(node))


def test_no_module_imports_itself_by_a_detour() -> None:
    """Also not inside functions or for type checkers. Raises `CycleError`, which names the cycle."""
    graph = {name: set(imports(nodes_of(tree))) - {name} for name, tree in modules().items()}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(modules())


def test_functions_import_our_own_code_only_for_a_reason() -> None:
    found = {
        (name, target)
        for name, tree in modules().items()
        if name.split(".")[0] not in {"cli", "api"} and not name.endswith(".registry") and name != "__init__"
        for target in lazy_imports(tree)
    }
    assert found <= LAZY


def test_a_class_name_has_one_meaning() -> None:
    homes = defaultdict(list)
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_folder_has_too_many_files() -> None:
    crowded = {
        folder.name: count
        for folder in SOURCE.rglob("*")
        if folder.is_dir() and (count := len(list(folder.glob("*.py")))) > 24
    }
    assert crowded == {}
