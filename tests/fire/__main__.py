"""The long version: a fifth each as it comes, with models that hop, with nodes at several prices, with stages
of any kind under any planner, and with the policy `forecast`. Every other one of each has requests of people.

`python -m tests.fire --experiments 10000`, or one experiment: `python -m tests.fire --seed 17`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter

from tests.fire.experiments import DECLARED, FORECAST, HOPPING, PRICED, make_experiment
from tests.fire.requests import EXTENDED
from tests.fire.trial import put_to_trial

PATIENCE_S = 300
"""Of the processor: on a busy machine, the clock would tell of others."""


def _give_up(*_: object) -> None:
    raise TimeoutError(f"no end after {PATIENCE_S} s of CPU")


def attempt(seed: int) -> tuple[int, str, int, str]:
    """(seed, how the run ended, events, what broke)."""
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    try:
        trial = put_to_trial(seed)
    except Exception:  # noqa: BLE001  whatever it is, it is what we look for
        return seed, "broken", 0, traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    state = trial.core.state
    return seed, str(state.ended), state.events, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="only this experiment, with its story")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.seed is not None:
        print(make_experiment(options.seed))
        trial = put_to_trial(options.seed)
        state = trial.core.state
        print(f"{state.events} events, ended: {state.ended}, best: {state.best}")
        return 0
    began, endings, events, broken = time.monotonic(), Counter[str](), 0, 0
    kinds = (0, HOPPING, PRICED, DECLARED, FORECAST)
    share = -(-options.experiments // len(kinds))
    first = options.first
    seeds = [kind + first + number + EXTENDED * (number % 2) for number in range(share) for kind in kinds]
    with multiprocessing.Pool(options.processes) as pool:
        for done, (seed, ending, count, error) in enumerate(pool.imap_unordered(attempt, seeds, 8), 1):
            endings[ending] += 1
            events += count
            if error:
                broken += 1
                print(f"{error}\nreproduce with: python -m tests.fire --seed {seed}\n", flush=True)
            if sys.stderr.isatty() and not done % 50:
                print(f"\r{done} of {len(seeds)}", end="", file=sys.stderr)
    took = time.monotonic() - began
    print(f"{len(seeds)} experiments, {events:,} events, {took:.0f} s: {dict(endings)}; {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
