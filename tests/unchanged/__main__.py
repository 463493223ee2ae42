"""`python -m tests.unchanged --save FILE` or `--compare FILE`."""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
import time
from pathlib import Path

from tests.unchanged.experiments import Experiment, all_experiments
from tests.unchanged.records import Record, differences, record

SHOWN = 5


def main() -> int:
    options = _options()
    began = time.monotonic()
    chosen = _chosen(options.only, options.limit)
    now = _records(chosen, options.processes)
    took = f"{len(now)} experiments, {time.monotonic() - began:.0f} s"
    if options.save:
        options.save.write_text(json.dumps(now, indent=1, sort_keys=True))
        failed = sum("error" in each for each in now.values())
        print(f"{took}: saved in {options.save}; {failed} broke an invariant")
        return 0
    before: dict[str, Record] = json.loads(options.compare.read_text())
    if options.only or options.limit is not None:
        names = {each.name for each in chosen}
        before = {name: each for name, each in before.items() if name in names}
    different = _compare(before, now, texts=options.texts)
    print(f"{took}: {len(before.keys() | now.keys()) - different} equal, {different} different")
    return 1 if different else 0


def _chosen(only: str, limit: int | None) -> list[Experiment]:
    named = [each for each in all_experiments() if only in each.name]
    most = len(named) if limit is None else min(limit, len(named))
    return [named[number * len(named) // most] for number in range(most)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.unchanged", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--save", type=Path, metavar="FILE")
    what.add_argument("--compare", type=Path, metavar="FILE")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="only experiments with such a name")
    parser.add_argument("--limit", type=int, metavar="N", help="only N of them, of all kinds")
    parser.add_argument("--texts", action="store_true", help="compare sentences, too")
    return parser.parse_args()


def _records(experiments: list[Experiment], processes: int) -> dict[str, Record]:
    with multiprocessing.Pool(processes) as pool:
        found: dict[str, Record] = {}
        for name, each in pool.imap_unordered(_named, experiments, 2):
            found[name] = each
            if not len(found) % 50:
                print(f"{len(found)} of {len(experiments)}", file=sys.stderr, flush=True)
        return dict(sorted(found.items()))


def _named(experiment: Experiment) -> tuple[str, Record]:
    return experiment.name, record(experiment)


def _compare(before: dict[str, Record], now: dict[str, Record], *, texts: bool) -> int:
    """How many differ, are missing or are new; each is printed."""
    different = 0
    for name in sorted(before.keys() | now.keys()):
        if name not in before or name not in now:
            different += 1
            print(f"{name}: {'missing' if name in before else 'new'}")
        elif found := list(itertools.islice(differences(before[name], now[name], texts=texts), SHOWN)):
            different += 1
            print("\n    ".join([name, *found]))
    return different


if __name__ == "__main__":
    sys.exit(main())
