"""`elastune profile`: measure a training before it is planned."""

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.run import ask_to_measure, carry_out
from elastune.cli.terminal import (
    DEFAULT_FOLDER,
    Address,
    AsJson,
    Check,
    JobFile,
    RunsFolder,
    Yes,
    json_output,
    print_json,
    show,
)  # fmt: skip


def profile_command(  # noqa: PLR0913, PLR0917  every option of a command is a parameter
    job: JobFile,
    out: Annotated[
        Path | None, typer.Option(help="The output file.", show_default="JOB.profile.json next to the job")
    ] = None,
    configurations: Annotated[int, typer.Option(help="Configurations, chosen to differ.", min=1)] = 6,
    iterations: Annotated[
        int, typer.Option(help="Iterations per configuration and number of slots.", min=2)
    ] = 6,
    boots: Annotated[int, typer.Option(help="Most nodes to boot at once; 0 for none.", min=0)] = 4,
    most: Annotated[str, typer.Option(help="Time limit.")] = "5m",
    plot: Annotated[Path | None, typer.Option(help="Draw the result into a .png or .svg file.")] = None,
    check: Check = True,
    address: Address = None,
    yes: Yes = False,
    runs_folder: RunsFolder = DEFAULT_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Measure the training: iterations on 1, 2, 4, ... slots and of different configurations, start-up,
    saves, boots of nodes."""
    with json_output(as_json):
        from elastune.api.checking import checked  # noqa: PLC0415
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
        target = out or job.with_suffix(".profile.json")
        with contextlib.redirect_stdout(sys.stderr):
            say = partial(typer.echo, err=True)
            given, _ = checked(load_job(job), wanted=check, address=address, folder=runs_folder, say=say)
        if address is None:
            ask_to_measure(given, effort, yes=yes, as_json=as_json)
        with contextlib.redirect_stdout(sys.stderr):
            start = partial(profile, given, effort=effort, address=address, folder=runs_folder, out=target)
            taken = carry_out(start, as_json=as_json)
        if plot is not None:
            from elastune.views.figures.plan import save_profile_plot  # noqa: PLC0415

            save_profile_plot(taken, plot)
    if as_json:
        print_json(taken.to_dict())
    else:
        from elastune.views.terminal.lists import render_profiled  # noqa: PLC0415

        show(render_profiled(taken, job))
