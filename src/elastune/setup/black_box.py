"""Whether a trainable is a function that returns its metrics, told from its text alone.

A plan imports no code of the user: that could take minutes, or fail on this machine. A run opens the function
and sets `max_iterations: 1` by itself; a plan would silently count trials of many iterations, so it is
refused with the line to write. What the text does not show (another module, a decorator, a class)
is not judged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from elastune.errors import JobError
from elastune.job.job import Job
from elastune.job.search_options import GridSearch, RandomSearch

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def require_one_iteration(job: Job) -> None:
    """Raise `JobError` if a trial is one call of the trainable and the search counts more iterations."""
    if not isinstance(job.trainable, str) or job.fidelity is not None:
        return
    most = getattr(job.search, "max_iterations", None)
    line = None if most == 1 and not job.names_search_only else line_of_call(job.trainable)
    if line is None:
        return
    home, _, name = job.trainable.rpartition(":")
    raise JobError(
        f"{home}:{line}: {name} has no yield: it returns its metrics, so a trial is one call; `elastune run` "
        "sees that, a plan does not import your code and counts the iterations of the job; write "
        f"{_line_to_write(job)}, or name the argument that tells the function how much to train, such as "
        "fidelity: epochs"
    )


def _line_to_write(job: Job) -> str:
    search = job.search
    if not job.declares_search or not isinstance(search, RandomSearch | GridSearch):
        return "search: {algorithm: random, max_iterations: 1, sampler: tpe}"
    trials = getattr(search, "trials", None)
    number = "" if trials is None else f"trials: {trials}, "
    return f"search: {{algorithm: {search.algorithm}, {number}max_iterations: 1}}"


def line_of_call(reference: str) -> int | None:
    """The line of the function, if the file shows that it returns its metrics; `path/to/file.py:name`."""
    home, _, name = reference.rpartition(":")
    if not home.endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(home).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):  # reported by what imports it
        return None
    found = [each for each in tree.body if getattr(each, "name", None) == name]
    if len(found) != 1 or not isinstance(function := found[0], ast.FunctionDef) or function.decorator_list:
        return None
    inside = list(_own_nodes(function))
    yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in inside)
    returns = any(isinstance(each, ast.Return) and each.value is not None for each in inside)
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    # `f(config, iteration)` is the curve of a simulation.
    is_call = returns and not yields and (len(names) == 1 or names[1:] == ["worker"])
    return function.lineno if is_call else None


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _NESTED):
            yield child
            yield from _own_nodes(child)
