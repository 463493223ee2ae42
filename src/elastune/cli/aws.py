"""`elastune aws`: the template of what an account needs, and a check of what a job names. Creates nothing."""

from pathlib import Path
from typing import Annotated

import typer

from elastune.cli.terminal import AsJson, JobFile, json_output, print_json
from elastune.errors import ExecutionError, JobError

aws_app = typer.Typer(help="Set up an AWS account for runs.", no_args_is_help=True)


@aws_app.command("init")
def init_command(
    file: Annotated[Path, typer.Argument(help="Where to write the template; - for the terminal.")] = Path(
        "elastune-stack.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a CloudFormation template with the security group, bucket, token, roles and head that runs on EC2
    need. Nothing is created.
    """
    from elastune.providers.ec2.account import describe_next, stack_template  # noqa: PLC0415

    if str(file) == "-":
        typer.echo(stack_template(), nl=False)
        return
    if file.exists() and not force:
        raise JobError(f"{file} exists already; expected another name, or --force")
    try:
        file.write_text(stack_template(), encoding="utf-8")
    except OSError as error:
        raise JobError(f"{file} cannot be written: {error.strerror}") from None
    typer.echo(describe_next(str(file)))


@aws_app.command("check")
def check_account_command(job: JobFile, as_json: AsJson = False) -> None:
    """Check whether the image, subnets, security group, secret, instance profile and bucket that a job names
    exist. Nothing is changed. Exit code 4 if something is missing.
    """
    with json_output(as_json):
        from elastune.job.job import load_job  # noqa: PLC0415
        from elastune.providers.ec2.account import check_account  # noqa: PLC0415

        given = load_job(job)
        if given.cluster.provider != "ec2":
            raise JobError(f"cluster.provider is {given.cluster.provider}; expected ec2")
        report = check_account(given.cluster.options, given.storage)
    if as_json:
        print_json(report.to_dict())
    else:
        for each in report.findings:
            typer.echo(f"{each.verdict.value:8} {each.what}{f': {each.detail}' if each.detail else ''}")
    if not report.is_complete:
        raise typer.Exit(ExecutionError.exit_code)
