"""Does the default suite find what the whole one finds? `python -m tests.mutants FOLDER [NUMBER]`.

FOLDER is what `tests.thinning` measured. Each mutant is one random change of one line that a test on the list
takes: another comparison, operator or constant. Where a test on the list fails for it, one of those that stay
in the default suite should fail, too; if none does, only `make test-all` finds that fault. Everything runs on
a copy of the tree.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.thinning import LIST, SOURCE, read_branches, read_costs

ROOT = Path(__file__).parents[1]
_SWAPPED: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub,
    ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_MOST_TESTS = 600
_PATIENCE_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One line of one file, changed."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(SOURCE)}:{self.line}  {self.text.strip()}"


def mutants_of(file: Path, lines: Iterable[int]) -> Iterator[Mutant]:
    """Every change of these lines; of expressions on one line only."""
    source = file.read_text(encoding="utf-8").splitlines()
    wanted = set(lines)
    for node in ast.walk(ast.parse("\n".join(source))):
        if not isinstance(node, ast.expr) or node.lineno not in wanted or node.end_lineno != node.lineno:
            continue
        changed = _changed(node)
        if changed is None:
            continue
        line = source[node.lineno - 1].encode()
        new = line[: node.col_offset] + f"({changed})".encode() + line[node.end_col_offset :]
        yield Mutant(file=file, line=node.lineno, text=new.decode())


def _changed(node: ast.expr) -> str | None:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _SWAPPED:
            swapped = ast.Compare(node.left, [_SWAPPED[type(operator)]()], node.comparators)  # type: ignore[list-item]
        case ast.BinOp(op=operator) if type(operator) in _SWAPPED:
            swapped = ast.BinOp(node.left, _SWAPPED[type(operator)](), node.right)  # type: ignore[assignment, arg-type]
        case ast.BoolOp(op=operator):
            swapped = ast.BoolOp(_SWAPPED[type(operator)](), node.values)  # type: ignore[assignment, arg-type]
        case ast.UnaryOp(op=ast.Not()):
            return ast.unparse(node.operand)
        case ast.Constant(value=bool(value)):
            return str(not value)
        case ast.Constant(value=int(value) | float(value)):
            return repr(value + 1)
        case _:
            return None
    return ast.unparse(ast.copy_location(swapped, node))


class Copy:
    """The tree, in which lines are changed and tests run."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "site")
        shutil.copytree(ROOT, self._root, ignore=ignored)
        self._environment = {**os.environ, "PYTHONPATH": str(self._root / "src")}

    def fails(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """Whether one of these tests does. Endless ones do."""
        file = self._root / mutant.file.relative_to(ROOT)
        kept = file.read_text(encoding="utf-8")
        lines = kept.splitlines()
        lines[mutant.line - 1] = mutant.text
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", ""]
        try:
            command = [sys.executable, "-m", "pytest", *options, *tests]
            done = subprocess.run(
                command,
                cwd=self._root,
                env=self._environment,
                capture_output=True,
                timeout=_PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        finally:
            file.write_text(kept, encoding="utf-8")
        return done.returncode != 0


def _judge(folder: Path, number: int) -> None:
    listed = set(LIST.read_text(encoding="utf-8").splitlines())
    costs = read_costs(folder.glob("costs-*.jsonl"))
    takers: dict[tuple[str, int], set[str]] = defaultdict(set)
    for test, branches in read_branches(folder).items():
        for path, start, end in branches:
            takers[path, abs(start)].add(test)
            takers[path, abs(end)].add(test)
    by_file: dict[str, set[int]] = defaultdict(set)
    for (path, line), tests in takers.items():
        if tests & listed and tests - listed:
            by_file[path].add(line)
    pool = [mutant for path in sorted(by_file) for mutant in mutants_of(Path(path), by_file[path])]
    found = lost = tried = 0
    with tempfile.TemporaryDirectory(prefix="elastune-mutants-") as name:
        copy = Copy(Path(name))
        for mutant in random.Random(0).sample(pool, len(pool)):
            able = sorted(takers[str(mutant.file), mutant.line], key=lambda test: costs.get(test, 0.0))
            dear = [test for test in able if test in listed][:10]
            tried += 1
            if copy.fails(mutant, dear):
                is_found = copy.fails(mutant, [test for test in able if test not in listed][:_MOST_TESTS])
                found, lost = found + is_found, lost + (not is_found)
                print(f"{'found' if is_found else 'LOST '}  {mutant}", flush=True)
                if found + lost >= number:
                    break
    print(f"{found + lost} of {tried} mutants fail a test on the list; {found} of them fail one that stays")


if __name__ == "__main__":
    _judge(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40)
