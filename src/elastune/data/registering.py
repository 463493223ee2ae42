"""From files to a dataset: which files make which partition, how many rows it has, which machines have it.

Only headers are read, except for CSV, whose rows have to be counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elastune.data import dataset, formats
from elastune.data.dataset import Dataset, Hosts, Partition
from elastune.data.file_contents import FileContents, check_alike
from elastune.data.files import File, Where, find, is_here, look
from elastune.data.reading import Reader, pack
from elastune.errors import JobError
from elastune.wording import plural, seen, several, without_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A file, and its rows if they are known already."""

    file: File
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    training: tuple[_Listed, ...]
    validation: tuple[_Listed, ...] = ()
    seed: int | None = None


def register(
    path: Where,
    *,
    partitions: int | None = None,
    validation: Where | None = None,
    validation_partitions: int | None = None,
    reader: str | Reader | None = None,
    hosts: Hosts | None = None,
    validation_hosts: Hosts | None = None,
) -> Dataset:
    """The files of a folder, a pattern, a URL or a list as a dataset, `partitions` of them or one per file.

    With `reader(path)`, or the name of such a function, files may be of any format. `hosts` names the
    machines that have a partition, by its number; all machines have the others. Listed files that only their
    hosts have are not checked.
    """
    packed = pack(reader)
    found = _list(path, trusted=hosts is not None)
    evaluated = found.validation
    if validation is not None:
        apart = _list(validation, trusted=validation_hosts is not None)
        if apart.validation:
            raise JobError(
                f"data: validation is {validation}, a folder of split data, and has files for training, too; "
                "expected only those for validation (such as its validation-*.npz), or nothing: the "
                "validation data of a split are used automatically"
            )
        evaluated = apart.training
    if reader is None:
        trained, evaluated = _counted(found.training, evaluated)
    else:  # which may leave rows out, so their number is not known
        trained, evaluated = (
            tuple(_Listed(file=each.file) for each in files) for files in (found.training, evaluated)
        )
    return Dataset(
        training=_group(trained, partitions, hosts, prefix=""),
        validation=_group(evaluated, validation_partitions, validation_hosts, prefix="validation_"),
        reader=packed.reference,
        reader_pickled=packed.pickled,
        seed=found.seed,
    )


def _list(where: Where, *, trusted: bool) -> _Listing:
    found = find(where)
    if found.folder is not None and (split := dataset.find_manifest(found.folder)) is not None:
        return _as_split(found.folder, split)
    if not found.paths:
        raise JobError(
            f"data: there are no files in {without_secrets(found.folder or '')}; expected npz, npy, csv or "
            "parquet files right in it (folders inside are not searched: name one, or give a pattern)"
        )
    absent = [path for path in found.paths if not is_here(path)]
    files = tuple(
        _Listed(file=File(path=path, size=0) if trusted and path in absent else _look(path))
        for path in found.paths
    )
    return _Listing(training=files)


def _as_split(folder: str, split: dataset.Manifest) -> _Listing:
    if not split.is_whole:
        raise JobError(
            f"{without_secrets(folder)}: a split of data was interrupted here; call elastune.data.split "
            "again, which writes all files again"
        )
    training, validation = (
        tuple(_Listed(file=dataset.check_file(folder, piece), rows=piece.rows) for piece in pieces)
        for pieces in (split.training, split.validation)
    )
    return _Listing(training=training, validation=validation, seed=split.recipe.seed)


def _look(path: str) -> File:
    file = look(path)
    if not file.size:
        raise JobError(f"{without_secrets(path)}: the file is empty; expected data, or leave it out")
    return file


def _counted(
    training: Sequence[_Listed], validation: Sequence[_Listed]
) -> tuple[tuple[_Listed, ...], tuple[_Listed, ...]]:
    """With the rows of every file on this machine; all must have the same columns."""
    kinds = sorted({formats.suffix_of(each.file.path) for each in (*training, *validation)})
    if len(kinds) > 1:
        raise JobError(
            f"data: the files are of different kinds ({several(kind or 'no suffix' for kind in kinds)}); "
            "expected one kind: give a pattern such as 'data/*.npz', or a `reader` that reads all of them"
        )
    formats.format_of(training[0].file.path)
    outlines: list[tuple[str, FileContents]] = []

    def count(listed: _Listed) -> _Listed:
        if listed.rows is not None or not listed.file.size:
            return listed
        found = formats.outline(listed.file.path)
        outlines.append((listed.file.path, found))
        check_alike(listed.file.path, found, *outlines[0])
        return _Listed(file=listed.file, rows=found.rows)

    return tuple(map(count, training)), tuple(map(count, validation))


def _group(
    listed: Sequence[_Listed], count: int | None, hosts: Hosts | None, *, prefix: str
) -> tuple[Partition, ...]:
    name = f"{prefix}partitions"
    if count is not None:
        _check_count(count, len(listed), name)
    count = len(listed) if count is None else count
    holders = dataset.read_hosts(hosts, count, f"{prefix}hosts")
    if not listed:
        return ()
    sizes = [each.file.size for each in listed]
    if not all(sizes) and count < len(listed):
        absent = several(each.file.path for each in listed if not each.file.size)
        raise JobError(
            f"{name} is {count}, but the sizes of these files are not known on this machine: {absent}; "
            "expected a partition for each file"
        )
    return tuple(
        _partition(number, [listed[index] for index in members], holders)
        for number, members in enumerate(dataset.group(sizes, count))
    )


def _partition(number: int, members: Sequence[_Listed], holders: Mapping[int, tuple[str, ...]]) -> Partition:
    rows = [each.rows for each in members]
    hosts = holders.get(number, ())
    absent = [each.file.path for each in members if not each.file.size]
    if absent and not hosts:
        raise JobError(
            f"{several(absent)}: there is no such file on this machine, and hosts does not say which machine "
            f"has partition {number}"
        )
    return Partition(
        number=number,
        sources=tuple(each.file.path for each in members),
        rows=None if None in rows else sum(count for count in rows if count is not None),
        bytes=sum(each.file.size for each in members),
        hosts=hosts,
        modified=tuple(each.file.modified for each in members),
    )


def _check_count(count: object, files: int, name: str) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise JobError(f"{name} is {seen(count)}; expected a whole number from 1")
    if count > files:
        raise JobError(
            f"{name} is {count}, but there {'is' if files == 1 else 'are'} {plural(files, 'file')}: a file "
            f"is never cut; expected {files} or less, or write the data as more files "
            "(elastune.data.split does that with data that fit into memory)"
        )
