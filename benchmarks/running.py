"""Runs experiments by name: progress while they run, then their tables; files go to the results folder."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks.reporting import Experiment

# Of a line where nobody tells how wide the screen is (a pipe, a file).
WIDTH = 150


def run_named(experiments: Mapping[str, Experiment], folder: Path, arguments: Sequence[str]) -> None:
    """The named experiments, or all of them."""
    parser = argparse.ArgumentParser(description="Run experiments and write their tables and figures.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(experiments))
    names = parser.parse_args(arguments).names or list(experiments)
    unknown = sorted(set(names) - set(experiments))
    if unknown:
        parser.error(f"no experiment {', '.join(unknown)}; there are: {', '.join(experiments)}")
    console, progress = Console(), Console(stderr=True)
    if not console.is_terminal:
        console.width = WIDTH
    began = time.perf_counter()
    for name in names:
        start = time.perf_counter()
        report = experiments[name](
            functools.partial(track, description=name, console=progress, transient=True)
        )
        report.show(console)
        files = report.write(folder)
        seconds = time.perf_counter() - start
        console.print(f"{name}: {seconds:.1f} s, {len(files)} files in {folder.name}/\n", highlight=False)
    console.print(f"total {time.perf_counter() - began:.1f} s", highlight=False)
