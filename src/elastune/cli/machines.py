"""`elastune machines`: what the providers of a job offer now."""

import typer

from elastune.cli.terminal import AsJson, JobFile, json_output, present
from elastune.errors import JobError


def machines_command(job: JobFile, as_json: AsJson = False) -> None:
    """Show what each kind of node of a job costs now, how long it is waited for, and how many there may be.

    Providers are asked for prices and waits. Nothing is started.
    """
    with json_output(as_json):
        from elastune.job.job import load_job  # noqa: PLC0415
        from elastune.setup.machine_offers import machine_offers  # noqa: PLC0415

        found = machine_offers(load_job(job))
    from elastune.views.terminal.machines import render_machines  # noqa: PLC0415

    present(found, render_machines, as_json=as_json)
    if all(offer.problem for offer in found.offers):
        raise typer.Exit(JobError.exit_code)
