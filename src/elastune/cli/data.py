"""`elastune data`: prepare partitioned data for runs in which models hop."""

from typing import TYPE_CHECKING, Annotated

import typer

from elastune.cli.terminal import AsJson, json_output, print_json

if TYPE_CHECKING:
    from elastune.data.dataset import Dataset

data_app = typer.Typer(help="Prepare partitioned data.", no_args_is_help=True)


@data_app.command("split")
def split_command(
    source: Annotated[
        list[str], typer.Argument(help="Files, patterns, an address such as s3://bucket/data, or a folder.")
    ],
    folder: Annotated[str, typer.Option("--to", help="Where the partitions go: a folder or an address.")],
    partitions: Annotated[int, typer.Option(help="The number of training partitions.", min=1)],
    seed: Annotated[int, typer.Option(help="Of the shuffle.", min=0)] = 0,
    validation: Annotated[
        float, typer.Option(help="The share of rows for evaluation, such as 0.1.", min=0.0, max=0.9)
    ] = 0.0,
    validation_partitions: Annotated[
        int | None,
        typer.Option(help="The number of validation partitions.", min=1, show_default="as many as training"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Shuffle the rows of all files and write them as partitions, for `data: {path: FOLDER}` in a job.

    Reads npz, npy, csv, parquet and HDF5 files and folders of images. Only a block of rows is in memory; on
    the disk, the data are there twice until the end. The same files and seed give the same partitions.
    """
    with json_output(as_json):
        from elastune.data.splitting import split_files  # noqa: PLC0415

        dataset = split_files(
            source[0] if len(source) == 1 else source,
            folder,
            partitions=partitions,
            seed=seed,
            validation=validation,
            validation_partitions=validation_partitions,
        )
        if as_json:
            print_json(_plain(dataset, folder))
            return
    for kind, parts in (("training", dataset.training), ("validation", dataset.validation)):
        if parts:
            rows = [part.rows or 0 for part in parts]
            size = f"{min(rows):,} to {max(rows):,} rows" if min(rows) < max(rows) else f"{rows[0]:,} rows"
            typer.echo(f"{len(parts)} {kind} partitions of {size} in {folder}")


def _plain(dataset: "Dataset", folder: str) -> dict[str, object]:
    kinds = {"training": dataset.training, "validation": dataset.validation}
    described = {
        kind: [{"file": part.sources[0], "rows": part.rows, "bytes": part.bytes} for part in parts]
        for kind, parts in kinds.items()
    }
    return {"folder": folder, "fingerprint": dataset.fingerprint(), **described}
