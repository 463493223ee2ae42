"""Lines of the user's code: where an error was raised, and where a change belongs."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import sysconfig
import textwrap
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from elastune.checks.report import CodePlace

_PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
# An environment may stand on another one, or on the system's.
_PACKAGES = frozenset(("site-packages", "dist-packages"))
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def is_users(file: str) -> bool:
    """Whether a file is neither of Python, nor of an installed package, nor of Elastune."""
    if file.startswith("<") and not file.startswith("<ipython"):
        return False
    path = Path(file).resolve()
    if not _PACKAGES.isdisjoint(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in (_PACKAGE, *_INSTALLED))


def raised_at(trace: TracebackType | None) -> CodePlace | None:
    """The innermost line of the user's in a traceback."""
    frames = [frame for frame in traceback.extract_tb(trace) if is_users(frame.filename)]
    if not frames:
        return None
    last = frames[-1]
    return CodePlace(file=last.filename, line=last.lineno or 0, code=(last.line or "").strip())


def is_raised_by_library(trace: TracebackType | None) -> bool:
    """Whether the innermost line is not the user's."""
    frames = traceback.extract_tb(trace)
    return bool(frames) and not is_users(frames[-1].filename)


def standing_at(dump: str) -> CodePlace | None:
    """The innermost line of the user's in what `faulthandler` wrote (the most recent call first)."""
    for match in _FRAME.finditer(dump):
        if is_users(match["file"]):
            line = int(match["line"])
            return CodePlace(
                file=match["file"], line=line, code=linecache.getline(match["file"], line).strip()
            )
    return None


Matches = Callable[[ast.AST], bool]


def find_place(user: object, *wanted: Matches) -> CodePlace | None:
    """The first line of a class or function that matches the first of `wanted` that is found; else its `def`
    or `class`. None: the source is not the user's, or not there."""
    code = plain_code(user)
    try:
        file, (lines, first) = inspect.getsourcefile(code), inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if file is None or not is_users(file):
        return None
    for matches in wanted:
        for node in _in_order(tree):
            if matches(node) and hasattr(node, "lineno"):
                number = int(node.lineno)
                return CodePlace(file=file, line=first + number - 1, code=lines[number - 1].strip())
    head = next((node for node in tree.body if hasattr(node, "lineno")), None)
    number = 1 if head is None else head.lineno
    return CodePlace(file=file, line=first + number - 1, code=lines[number - 1].strip())


def assigns_global(user: object, name: str) -> CodePlace | None:
    """The line of the user's file that first gives a value to a global variable, or to an attribute of a
    class: `model`, `Train.model`, `data['x']`."""
    parts = re.split(r"[.\[]", name)
    wanted = parts[1] if name.startswith(f"{getattr(user, '__name__', '')}.") else parts[0]
    try:
        file = inspect.getsourcefile(plain_code(user))
        text = Path(file or "").read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if file is None or not is_users(file):
        return None
    for node in _in_order(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and wanted in _names_given(node):
            return CodePlace(file=file, line=node.lineno, code=text.splitlines()[node.lineno - 1].strip())
    return None


def _names_given(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    inside = (each for target in targets for each in ast.walk(target))
    return {each.id for each in inside if isinstance(each, ast.Name)}


def plain_code(user: Any) -> Any:
    """The class or function itself, without partial arguments and decorators."""
    while isinstance(user, functools.partial):
        user = user.func
    if not isinstance(user, type) and not inspect.isroutine(user):
        user = type(user)
    return user if isinstance(user, type) else inspect.unwrap(user)


def _in_order(tree: ast.AST) -> Iterator[ast.AST]:
    """As they are written."""
    for node in ast.iter_child_nodes(tree):
        yield node
        yield from _in_order(node)


# What a line may be.


def calls(*names: str) -> Matches:
    """A call of a function or method of one of these names."""

    def matches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in names

    return matches


def calls_outside_worker(name: str) -> Matches:
    """A call of a method, unless it is the worker's: `loss.backward()`, not `worker.backward(loss)`."""

    def matches(node: ast.AST) -> bool:
        if not calls(name)(node) or not isinstance(node, ast.Call):
            return False
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        owner_name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        return owner_name != "worker"

    return matches


def defines(*names: str) -> Matches:
    def matches(node: ast.AST) -> bool:
        return isinstance(node, ast.FunctionDef) and node.name in names

    return matches


def yields(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield)


def results_of_step(user: object) -> CodePlace | None:
    """Where it reports its metrics: a `yield`, or the last `return` of `step`."""
    code = plain_code(user)
    step = getattr(code, "step", None) if isinstance(code, type) else None
    if step is None:
        return find_place(code, yields, lambda node: isinstance(node, ast.Return))
    return find_place(step, lambda node: isinstance(node, ast.Return))
