"""Errors as JSON, for programs that asked for it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict

import typer

from elastune.errors import ElastuneError, ExecutionError, InfeasibleError, JobError


@contextlib.contextmanager
def errors_as_json(wanted: bool) -> Iterator[None]:
    """Print an error as data and end with its exit code; without `wanted` it goes on its way."""
    try:
        yield
    except ElastuneError as error:
        if not wanted:
            raise
        typer.echo(json.dumps(_error_data(error), indent=2))
        raise typer.Exit(error.exit_code) from None


def _error_data(error: ElastuneError) -> dict[str, object]:
    from elastune.planning import NoPlanError  # noqa: PLC0415

    if not isinstance(error, NoPlanError):
        return {"error": _kind(error), "message": str(error)}
    diagnosis = error.diagnosis
    return {
        "error": "infeasible",
        "message": str(error),
        "binding": diagnosis.binding.value,
        "deadline_seconds": diagnosis.limits.deadline_s,
        "budget": diagnosis.limits.budget_usd,
        "confidence": diagnosis.limits.confidence,
        "fastest": None if diagnosis.fastest is None else asdict(diagnosis.fastest),
        "cheapest": None if diagnosis.cheapest is None else asdict(diagnosis.cheapest),
        "would_fit": [
            {
                key: value
                for key, value in (
                    ("deadline_seconds", remedy.deadline_s),
                    ("budget", remedy.budget_usd),
                    ("max_nodes", remedy.max_nodes),
                )
                if value is not None
            }
            for remedy in diagnosis.remedies
        ],
    }


def _kind(error: ElastuneError) -> str:
    match error:
        case JobError():
            return "job"
        case ExecutionError():
            return "execution"
        case InfeasibleError():
            return "infeasible"
        case _:
            return "internal"
