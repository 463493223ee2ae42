"""The long version: `python -m tests.clouds --runs 10000`, behind moto `--moto`, one run `--seed 17`."""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from typing import NamedTuple

from tests.clouds.moto_world import moto_cloud, through_moto
from tests.clouds.runs import CloudRun, put_on_cloud


class Outcome(NamedTuple):
    seed: int
    ending: str
    calls: int
    instances: int
    deaths: int
    error: str


def attempt(seed: int, *, moto: bool = False) -> Outcome:
    try:
        run = put_on_cloud(seed, through_moto) if moto else put_on_cloud(seed)
    except Exception:  # noqa: BLE001  whatever it is, it is what we look for
        return Outcome(seed, "broken", 0, 0, 0, traceback.format_exc())
    return Outcome(seed, ending(run), run.world.calls, len(run.world.boxes), run.deaths, "")


def ending(run: CloudRun) -> str:
    ended = run.core.state.ended
    return "given up" if ended is None else ended.value


def attempt_behind_moto(seeds: list[int]) -> list[Outcome]:
    """Some runs on one moto, which forgets nothing and so gets slow in time."""
    with moto_cloud():
        return [attempt(seed, moto=True) for seed in seeds]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="only this run")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--moto", action="store_true", help="every call over HTTP to moto")
    options = parser.parse_args()
    if options.seed is not None:
        (outcome,) = attempt_behind_moto([options.seed]) if options.moto else [attempt(options.seed)]
        print(outcome.error or outcome)
        return bool(outcome.error)
    seeds = list(range(options.first, options.first + options.runs))
    began, endings, totals, broken = time.monotonic(), Counter[str](), Counter[str](), 0
    signal.signal(signal.SIGTERM, _stop)  # report those that are done
    done = 0
    with (
        contextlib.suppress(KeyboardInterrupt),
        multiprocessing.Pool(
            options.processes,
            initializer=signal.signal,
            initargs=(signal.SIGTERM, signal.SIG_DFL),
            maxtasksperchild=8 if options.moto else None,
        ) as pool,
    ):
        blocks = [seeds[start : start + 20] for start in range(0, len(seeds), 20)]
        some = pool.imap_unordered(attempt_behind_moto if options.moto else attempt_all, blocks)
        for done, outcome in enumerate((each for block in some for each in block), 1):
            endings[outcome.ending] += 1
            totals.update(calls=outcome.calls, instances=outcome.instances, deaths=outcome.deaths)
            if outcome.error:
                broken += 1
                again = f"python -m tests.clouds --seed {outcome.seed}{' --moto' if options.moto else ''}"
                print(f"{outcome.error}\nreproduce with: {again}\n", flush=True)
            if sys.stderr.isatty() and not done % 50:
                print(f"\r{done} of {len(seeds)}", end="", file=sys.stderr)
    took = time.monotonic() - began
    print(
        f"{done} runs{' behind moto' if options.moto else ''}, {totals['calls']:,} calls, "
        f"{totals['instances']:,} instances, {totals['deaths']:,} deaths of drivers, {took:.0f} s: "
        f"{dict(endings)}; {broken} broken"
    )
    return 1 if broken else 0


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def attempt_all(seeds: list[int]) -> list[Outcome]:
    return [attempt(seed) for seed in seeds]


if __name__ == "__main__":
    sys.exit(main())
