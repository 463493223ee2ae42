"""Runs an objective just far enough to see what it suggests: up to the line after its last suggestion.

An objective suggests and then trains, and only its source says where the one ends: before each line of the
functions that have the trial, the lines that may follow are searched for another suggestion. If none is left,
the objective is ended there. What cannot be read (no source, a lambda) runs on: to the first report, or to
the end. Branches that are not taken do not count; the body of a loop counts until the loop is left.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# What an objective may ask of its trial without suggesting anything.
_HARMLESS = frozenset(
    {
        "report", "should_prune", "set_user_attr", "set_system_attr", "number", "params", "user_attrs",
        "system_attrs", "distributions", "datetime_start", "relative_params", "study",
    }
)  # fmt: skip
_REPORTING = frozenset({"report", "should_prune"})
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What an objective does after its suggestions: whether it reports, and how often if a loop says so."""

    any: bool
    count: int | None = None


class SuggestedError(BaseException):
    """Ends the objective after its last suggestion. No `Exception`, so that objectives do not catch it."""

    def __init__(self, reports: Reports) -> None:
        super().__init__(reports)
        self.reports = reports


def run_suggestions(objective: Callable[..., object], trial: object) -> Reports:
    """Call the objective with a trial that suggests; its output is dropped. Raises its errors."""
    watch = _Watch(trial, sys._getframe())  # noqa: SLF001  the frame at which its callers end
    before = sys.gettrace()
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            sys.settrace(watch.called)
            objective(trial)
        except SuggestedError as ended:
            return ended.reports
        finally:
            sys.settrace(before)
    return Reports(any=False)


class _Watch:
    """Traces the functions on the way to a suggestion, and no others."""

    def __init__(self, trial: object, end: types.FrameType) -> None:
        self._trial = trial
        self._end = end

    def called(self, frame: types.FrameType, event: str, _: object) -> Any:
        """A function begins. Callers of `suggest...` are traced; what else they call may be the training."""
        if not self._is_of_trial(frame) or not frame.f_code.co_name.startswith("suggest"):
            if self._trains(frame):
                raise SuggestedError(self._reports(frame, None))
            return None
        for caller in self._callers(frame):
            caller.f_trace = self._line
        return self._suggesting

    def _suggesting(self, frame: types.FrameType, event: str, _: object) -> Any:
        if event == "exception":
            return None
        if event == "return" and not self._may_suggest_after(frame):
            raise SuggestedError(self._reports(frame, None))
        return self._suggesting

    def _line(self, frame: types.FrameType, event: str, _: object) -> Any:
        if event == "line" and not self._may_suggest(frame):
            raise SuggestedError(self._reports(frame, frame))
        return self._line

    def _trains(self, frame: types.FrameType) -> bool:
        """Whether nothing can be suggested in a function that begins, nor after it."""
        caller = frame.f_back
        if caller is None or caller is self._end or caller.f_trace is None or self._is_of_trial(caller):
            return False
        return not self._holders(frame) and not self._may_suggest_after(frame)

    def _is_of_trial(self, frame: types.FrameType) -> bool:
        return frame.f_locals.get("self") is self._trial

    def _callers(self, frame: types.FrameType) -> Iterator[types.FrameType]:
        caller = frame.f_back
        while caller is not None and caller is not self._end:
            yield caller
            caller = caller.f_back

    def _may_suggest(self, frame: types.FrameType) -> bool:
        """In this function from its present line on, or later in its callers."""
        here = _suggests_from(frame.f_code, frame.f_lineno, None, self._holders(frame))
        return here or self._may_suggest_after(frame)

    def _may_suggest_after(self, frame: types.FrameType) -> bool:
        """In its callers, after their present calls."""
        return any(
            _suggests_from(caller.f_code, caller.f_lineno, _call_in(caller), self._holders(caller))
            for caller in self._callers(frame)
        )

    def _reports(self, frame: types.FrameType, line: types.FrameType | None) -> Reports:
        """In its callers after their calls; `line`: also in this function, from its line on."""
        places = [(caller, _call_in(caller)) for caller in self._callers(frame)]
        found = [
            (node, at)
            for at, after in [*([] if line is None else [(line, None)]), *places]
            for node in _nodes_from(at.f_code, at.f_lineno, after) or ()
            if _uses(node, _REPORTING)
        ]
        return Reports(any=bool(found), count=_rounds(*found[0]) if len(found) == 1 else None)

    def _holders(self, frame: types.FrameType) -> frozenset[str]:
        """The variables by which the trial can be reached."""
        return frozenset(name for name, value in frame.f_locals.items() if self._reaches(value))

    def _reaches(self, value: object) -> bool:
        if value is self._trial:
            return True
        if isinstance(value, types.FunctionType):
            return any(self._is_trial_in(cell) for cell in value.__closure__ or ())
        held = getattr(value, "__dict__", None)
        return isinstance(held, dict) and any(each is self._trial for each in held.values())

    def _is_trial_in(self, cell: types.CellType) -> bool:
        try:
            return cell.cell_contents is self._trial
        except ValueError:  # not filled yet
            return False


Place = tuple[int, int]
"""Line and column."""


def _call_in(frame: types.FrameType) -> Place | None:
    """The end of the call that the function is in; None: that is not recorded."""
    places = list(frame.f_code.co_positions())
    _, line, _, column = places[frame.f_lasti // 2]
    return None if line is None or column is None else (line, column)


@lru_cache(maxsize=4096)
def _suggests_from(code: types.CodeType, line: int, after: Place | None, holders: frozenset[str]) -> bool:
    """Whether a suggestion may follow in this function: from the beginning of a line on, or after a call."""
    nodes = _nodes_from(code, line, after)
    return nodes is None or any(_suggests(node, holders) for node in nodes)


def _nodes_from(code: types.CodeType, line: int, after: Place | None) -> list[ast.AST] | None:
    """What can be executed from there on in this function; None: its source is not known."""
    function = _function_of(code)
    if function is None:
        return None
    if isinstance(function, ast.Lambda):
        return [function.body] if after is None else list(_rest(function.body, after))
    path = _path_to(function, line)
    return None if path is None else list(_following(path, after))


@lru_cache(maxsize=256)
def _function_of(code: types.CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """None: its source is not known."""
    try:
        lines, _ = inspect.findsource(code)
        tree = _file("".join(lines))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    named = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and _is_of(each, code)]
    if named:
        return named[0]
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column is not None]
    lambdas = [each for each in ast.walk(tree) if isinstance(each, ast.Lambda)]
    inside = [each for each in lambdas if any(_begin(each) <= place < _end(each) for place in places)]
    right = [each for each in inside if each.lineno == code.co_firstlineno]
    return right[0] if code.co_name == "<lambda>" and len(right) == 1 else None


@lru_cache(maxsize=16)
def _file(source: str) -> ast.Module:
    return ast.parse(source)


def _is_of(function: ast.FunctionDef, code: types.CodeType) -> bool:
    """The first line of a function is that of its first decorator."""
    first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
    return function.name == code.co_name and first == code.co_firstlineno


def _begin(node: Any) -> Place:
    return node.lineno, node.col_offset


def _end(node: Any) -> Place:
    return node.end_lineno, node.end_col_offset


def _path_to(function: ast.FunctionDef, line: int) -> list[Any] | None:
    """From the function to the statement that has the line; None: there is none."""
    path: list[Any] = [function]
    while True:
        # What stands on the line of its `if` or `for` may not be reached; of several on a line, the first is.
        first = path[-1].lineno + (len(path) > 1)
        inside = [
            each for each in _statements(path[-1]) if first <= each.lineno <= line <= (each.end_lineno or 0)
        ]
        if not inside:
            return path if len(path) > 1 else None
        path.append(inside[0])
        if isinstance(inside[0], ast.FunctionDef | ast.ClassDef):
            return path


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for name in ("handlers", "cases"):
        for each in getattr(node, name, ()):
            yield each.body


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for block in _blocks(node):
        yield from block


def _following(path: list[Any], after: Place | None) -> Iterator[ast.AST]:
    """The statement at the end of the path, from the call in it on, and all that can come after it."""
    statement = path[-1]
    yield from [statement] if after is None else _rest(statement, after)
    if isinstance(statement, ast.Return):
        return
    for outer, inner in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        if isinstance(outer, _LOOPS):
            yield outer  # round again
        block = next(each for each in _blocks(outer) if inner in each)
        for statement in block[block.index(inner) + 1 :]:
            yield statement
            if isinstance(statement, ast.Return):
                return
        if isinstance(outer, ast.Try):
            yield from [*outer.orelse, *outer.finalbody] if block is outer.body else outer.finalbody


def _rest(tree: ast.AST, after: Place) -> Iterator[ast.AST]:
    """The parts of a statement or expression that are evaluated after the call that ends there."""
    if isinstance(tree, (*_COMPREHENSIONS, ast.While)):
        yield tree  # round again
        return
    taken = tree.test if isinstance(tree, ast.IfExp) else None
    for child in ast.iter_child_nodes(tree):
        if not hasattr(child, "lineno"):
            yield from _rest(child, after)
        elif _begin(child) >= after:
            if taken is None or _begin(taken) <= after <= _end(taken):
                yield child
        elif _end(child) > after or (_end(child) == after and not isinstance(child, ast.Call)):
            yield from _rest(child, after)


def _uses(tree: ast.AST, attributes: frozenset[str]) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in attributes for node in ast.walk(tree))


def _rounds(tree: ast.AST, frame: types.FrameType) -> int | None:
    """How often the loop that reports goes round: `for ... in range(n)` with a known n and one report."""
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Attribute) and each.attr == "report"]
    loops = [each for each in ast.walk(tree) if isinstance(each, _LOOPS) and _uses(each, _REPORTING)]
    match loops:
        case [ast.For(iter=ast.Call(func=ast.Name(id="range"), args=args))] if len(calls) == 1:
            numbers = [_known(each, frame) for each in args]
            if None not in numbers:
                return len(range(*numbers)) or None  # type: ignore[arg-type]
    return None


def _known(node: ast.expr, frame: types.FrameType) -> int | None:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _suggests(tree: ast.AST, holders: frozenset[str]) -> bool:
    """Whether it uses the trial in another way than to report."""
    harmless: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("suggest"):
                return True
            if node.attr in _HARMLESS:
                harmless.add(id(node.value))
        if isinstance(node, ast.Name) and node.id in holders and id(node) not in harmless:
            return True
    return False
