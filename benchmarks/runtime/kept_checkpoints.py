"""How many checkpoints the end of a run leaves for an extension.

`python -m benchmarks.runtime.kept_checkpoints`. Counts checkpoints, not bytes: a
run's models are all about as large. Retention gets the events of simulated runs, as it does those of real
ones, and a store that only counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from elastune.core.events import AnyEvent
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.runs.retention import Retention
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import prepare

_POLICIES: dict[str, dict[str, object]] = {
    "rubberband": {"algorithm": "sha", "trials": 81, "max_iterations": 81},
    "seer": {"algorithm": "seer"},
    "asha": {"algorithm": "asha", "trials": 81, "max_iterations": 81},
    "hypersched": {"algorithm": "hypersched", "trials": 81, "max_iterations": 81},
    "random": {"algorithm": "random", "trials": 81, "max_iterations": 81},
    "pbt": {"algorithm": "pbt", "trials": 27, "max_iterations": 81},
}


class _CountingStore:
    """A store that knows which checkpoints there are."""

    def __init__(self) -> None:
        self.there: set[tuple[int, int]] = set()
        self.most = 0

    def save(self, trial: int, iteration: int) -> None:
        self.there.add((trial, iteration))

    def delete(self, trial: int, iteration: int) -> None:
        self.there.discard((trial, iteration))

    def list(self) -> tuple[tuple[int, int], ...]:
        return tuple(self.there)

    def sweep(self) -> None: ...


def _job(search: dict[str, object], deadline_s: float | None) -> Job:
    limits = {} if deadline_s is None else {"deadline": deadline_s}
    if search["algorithm"] == "seer":
        limits |= {"budget": 200.0}
    return Job.from_dict(
        {
            "trainable": "synthetic:hypersched",
            "search": search,
            "profile": {"iteration": 30.0, "startup": 5.0, "save": 2.0},
            "cluster": {"slots_per_node": 4, "max_nodes": 4, "price_per_hour": 12.0, "init": 30.0},
            **limits,
        }
    )


def _count(search: dict[str, object], deadline_s: float, *, keeps_race: bool) -> tuple[int, int, str]:
    """The most checkpoints at a time, those after the end, and the ending."""
    # Without a plan for it: what a plan keeps, a deadline does not cut off.
    setup = prepare(_job(search, None if search["algorithm"] == "sha" else deadline_s))
    if search["algorithm"] == "sha":
        limits = replace(setup.terms.limits, deadline_s=deadline_s)
        setup = replace(setup, terms=replace(setup.terms, limits=limits))
    run = Simulation(setup, seed=0, journal=MemoryJournal(keeps_lines=False), record=unnamed(setup))
    store: Any = _CountingStore()
    retention = Retention(store, run.core.state, keeps_race=keeps_race)

    def take(event: AnyEvent) -> Any:
        before = {number: trial.saved for number, trial in run.core.state.trials.items()}
        commands = run.driver(event)
        for number, trial in run.core.state.trials.items():
            if trial.saved > before.get(number, 0):
                store.save(number, trial.saved)
        retention.take(event)
        retention.sweep()
        retention._hands.submit(lambda: None).result()  # noqa: SLF001  what is deleted is counted as deleted
        store.most = max(store.most, len(store.there))
        return commands

    run.start()
    while run.body.step(take):
        pass
    retention.tidy()
    retention.close()
    return store.most, len(store.there), str(run.core.state.ended)


def main() -> None:
    print("| policy | checkpoints during the run, at most | after the end | with `keep_checkpoints: least` |")
    print("|---|---:|---:|---:|")
    for name, search in _POLICIES.items():
        setup = prepare(_job(search, 3600.0 if name == "seer" else None))
        whole = Simulation(setup, seed=0, journal=MemoryJournal(keeps_lines=False), record=unnamed(setup))
        whole.run()
        half_s = (whole.core.state.ended_s or 0.0) / 2
        most, after, ending = _count(search, half_s, keeps_race=True)
        _, least, _ = _count(search, half_s, keeps_race=False)
        print(f"| `{name}` ({ending}) | {most} | {after} | {least} |")


if __name__ == "__main__":
    main()
