"""The numbers of a report, for programs."""

from __future__ import annotations

from dataclasses import asdict

from elastune.runs.history.comparison import Comparison, Mean
from elastune.runs.history.reading import Memoir


def run_figures(memoir: Memoir) -> dict[str, object]:
    """Named as in `status --json`."""
    record, standing, history = memoir.found.record, memoir.status.standing, memoir.history
    return {
        "run": record.run,
        "name": record.name,
        "policy": standing.policy,
        "seed": record.seed,
        "state": memoir.status.state.value,
        "metric": standing.metric,
        "predicted": None if standing.predicted is None else asdict(standing.predicted),
        "actual": asdict(standing.actual),
        "deadline_seconds": standing.limits.deadline_s,
        "budget": standing.limits.budget_usd,
        "keeps_deadline": standing.keeps_deadline,
        "keeps_budget": standing.keeps_budget,
        "best": None if standing.best is None else standing.best.to_dict(),
        "trials": standing.trials,
        "nodes": len(history.nodes),
        "nodes_lost": sum(life.lost for life in history.nodes),
        "crashes": history.crashes,
        **({} if standing.hopping is None else {"hopping": standing.hopping.to_dict()}),
    }


def compared_figures(comparison: Comparison) -> dict[str, object]:
    return {
        "name": comparison.title,
        "metric": comparison.metric,
        "mode": comparison.mode.value,
        "policies": [
            {
                "label": party.label,
                "policy": party.policy,
                "runs": [run.record.run for run in party.runs],
                "best": _mean(party.best),
                "jct_seconds": _mean(party.seconds),
                "cost": _mean(party.usd),
                "kept_deadline": _share(party.kept_deadline, len(party.runs)),
                "kept_budget": _share(party.kept_budget, len(party.runs)),
                "endings": party.endings,
            }
            for party in comparison.parties
        ],
    }


def _mean(mean: Mean | None) -> dict[str, float | None] | None:
    return None if mean is None else {"mean": mean.value, "standard_error": mean.error}


def _share(kept: int | None, runs: int) -> float | None:
    return None if kept is None else kept / runs
