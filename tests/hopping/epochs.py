"""Small epochs with anything that may occur, and what may happen to them on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from elastune.hopping.epoch import (
    Epoch,
    Hops,
    HopWorker,
    PartitionId,
    Underway,
    Unit,
    UnitFailed,
    WorkerId,
    WorkerJoined,
    WorkerLost,
)
from elastune.hopping.simulation import Change
from elastune.model.ids import TrialId


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How large the epochs are and what they have."""

    max_trials: int = 6
    max_partitions: int = 5
    max_workers: int = 4
    hops: bool = True
    begun: bool = True


ANY = Kind()
TINY = Kind(max_trials=3, max_partitions=2, max_workers=3, hops=False)


def worker(name: str, partitions: list[int], unit_s: Mapping[int, float]) -> HopWorker:
    return HopWorker(
        id=WorkerId(name),
        partitions=frozenset(PartitionId(each) for each in partitions),
        unit_s={TrialId(trial): seconds for trial, seconds in unit_s.items()},
    )


def grid(times: list[list[float]], *, replicas: int = 1) -> Epoch:
    """Times by trial and worker; worker j holds partition j and the next ones."""
    count = len(times[0])
    return Epoch(
        trials=tuple(TrialId(t) for t in range(len(times))),
        partitions=tuple(PartitionId(p) for p in range(count)),
        workers=tuple(
            worker(
                f"w{j}",
                [(j + step) % count for step in range(replicas)],
                {t: row[j] for t, row in enumerate(times)},
            )
            for j in range(count)
        ),
    )


def random_epoch(random: Random, kind: Kind) -> Epoch:
    trials = tuple(TrialId(t) for t in range(random.randint(1, kind.max_trials)))
    partitions = tuple(PartitionId(p) for p in range(random.randint(1, kind.max_partitions)))
    names = [f"w{j}" for j in range(random.randint(1, kind.max_workers))]
    holders = {
        p: random.sample(names, random.randint(0 if kind.begun else 1, len(names))) for p in partitions
    }
    workers = tuple(
        worker(name, [p for p in partitions if name in holders[p]], _times(random, trials)) for name in names
    )
    hops = Hops(
        seconds={t: random.choice((0.0, 0.5, 2.0)) for t in trials} if kind.hops else {},
        model_bytes={t: random.randint(1, 9) for t in trials},
    )
    plain = Epoch(
        trials=trials,
        partitions=partitions,
        workers=workers,
        sizes={p: random.choice((0.5, 1.0, 2.0)) for p in partitions if random.random() < 0.3},
        hops=hops,
    )
    return _begun(random, plain) if kind.begun and random.random() < 0.5 else plain


def epochs(kind: Kind) -> st.SearchStrategy[Epoch]:
    """By seed: drawing every choice from Hypothesis takes ten times as long."""
    return st.integers(min_value=0, max_value=2**32).map(lambda seed: random_epoch(Random(seed), kind))


def random_changes(random: Random, epoch: Epoch) -> list[Change]:
    """Losses, returns with other partitions, newcomers and failures, each possible when it happens."""
    present = {each.id for each in epoch.workers}
    changes: list[Change] = []
    at_s = 0.0
    for number in range(random.randint(1, 6)):
        at_s += random.choice((0.0, 0.7, 1.0, 3.3, 8.0))
        match random.choice(("lose", "lose", "join", "fail")):
            case "lose" if present:
                lost = random.choice(sorted(present))
                present.remove(lost)
                changes.append(WorkerLost(at_s=at_s, worker=lost))
            case "fail" if present:
                changes.append(UnitFailed(at_s=at_s, worker=random.choice(sorted(present))))
            case _:
                away = sorted({each.id for each in epoch.workers} - present)
                name = random.choice([*away, WorkerId(f"new{number}")])
                held = [p for p in epoch.partitions if random.random() < 0.6]
                present.add(name)
                joined = worker(name, list(held), _times(random, epoch.trials))
                changes.append(WorkerJoined(at_s=at_s, worker=joined))
    return changes


def everything_comes_back(epoch: Epoch, changes: list[Change]) -> list[Change]:
    """The same, and at last somebody who holds all partitions."""
    last_s = max((change.at_s for change in changes), default=0.0) + 5.0
    rescuer = worker("rescue", list(epoch.partitions), dict.fromkeys(epoch.trials, 1.0))
    return [*changes, WorkerJoined(at_s=last_s, worker=rescuer)]


def _times(random: Random, trials: tuple[TrialId, ...]) -> dict[int, float]:
    return {trial: random.choice((1.0, 1.0, 2.0, 3.0, 7.0, 0.3)) for trial in trials}


def _begun(random: Random, epoch: Epoch) -> Epoch:
    done = frozenset(unit for unit in epoch.units if random.random() < 0.3)
    underway: list[Underway] = []
    for each in epoch.workers:
        busy = {other.unit.trial for other in underway}
        ways = [
            unit
            for unit in epoch.units
            if unit not in done and unit.trial not in busy and unit.partition in each.partitions
        ]
        if ways and random.random() < 0.4:
            unit = random.choice(ways)
            underway.append(Underway(unit=unit, worker=each.id, left_s=random.choice((0.5, 2.0))))
    at = {each.unit.trial: each.worker for each in underway}
    return Epoch(
        trials=epoch.trials,
        partitions=epoch.partitions,
        workers=epoch.workers,
        sizes=epoch.sizes,
        hops=Hops(seconds=epoch.hops.seconds, model_bytes=epoch.hops.model_bytes, at=at),
        done=done,
        underway=tuple(underway),
    )


def unit(trial: int, partition: int) -> Unit:
    return Unit(TrialId(trial), PartitionId(partition))
