"""`elastune profile`: measure a training before it is planned."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.run import ask_to_measure, carry_out
from elastune.cli.terminal import DEFAULT_FOLDER, RunsFolder, errors_as_json, show


def profile_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    job: Annotated[Path, typer.Argument(help="The job file (YAML).", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The output file.", show_default="JOB.profile.json next to the job")
    ] = None,
    configurations: Annotated[int, typer.Option(help="Number of sampled configurations.", min=1)] = 2,
    iterations: Annotated[
        int, typer.Option(help="Iterations per configuration and number of slots.", min=2)
    ] = 6,
    boots: Annotated[int, typer.Option(help="Most nodes to boot at once; 0 for none.", min=0)] = 4,
    most: Annotated[str, typer.Option(help="Time limit.")] = "5m",
    plot: Annotated[
        Path | None, typer.Option(help="Draw the result into a .png, .svg or .html file.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Use the Ray cluster at this address.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending money.")] = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the training: iterations on 1, 2, 4, ... slots, start-up, saves, boots of nodes."""
    with errors_as_json(as_json):
        from elastune.api.profiling import profile  # noqa: PLC0415
        from elastune.errors import JobError  # noqa: PLC0415
        from elastune.job.job import load_job  # noqa: PLC0415
        from elastune.model.quantities import ExpectedError, positive_duration  # noqa: PLC0415
        from elastune.runs.profiling import Effort  # noqa: PLC0415

        try:
            most_s = positive_duration(most)
        except ExpectedError as error:
            raise JobError(f"--most is {most!r}; expected {error}") from None
        effort = Effort(configurations=configurations, iterations=iterations, boots=boots, most_s=most_s)
        target = job.with_suffix(".profile.json") if out is None else out
        if address is None:
            ask_to_measure(load_job(job), effort, yes=yes, as_json=as_json)
        with contextlib.redirect_stdout(sys.stderr):
            taken = carry_out(
                lambda meter, nudge: profile(
                    job,
                    effort=effort,
                    address=address,
                    folder=runs_folder,
                    out=target,
                    watch=meter,
                    nudge=nudge,
                ),
                as_json=as_json,
            )
        if plot is not None:
            from elastune.views.figures.plan import save_profile_plot  # noqa: PLC0415

            save_profile_plot(taken, plot)
    if as_json:
        typer.echo(json.dumps(taken.to_dict(), indent=2))
    else:
        from elastune.views.terminal.lists import render_profiled  # noqa: PLC0415

        show(render_profiled(taken, job))
