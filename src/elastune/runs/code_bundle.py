"""Opens the user's trainable and packs its code for the workers."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from elastune.curves.source import CurveFile
from elastune.errors import ElastuneError, JobError
from elastune.job.job import Job
from elastune.runtime.ray.agent import this_machine
from elastune.runtime.ray.code_bundle import pack
from elastune.runtime.ray.messages import CodeBundle, CodeParcel, CodeReference, SharedParcel
from elastune.space.space import Space
from elastune.training.recipe import Recipe, load, open_recipe
from elastune.training.shared_data import dump
from elastune.wording import several

# Libraries that are safe to import before a process forks; those that the user's code imported are preloaded:
# 2-5 s once per node instead of once per slot.
_FORKABLE = ("numpy", "scipy", "pandas", "sklearn", "torch", "lightning", "transformers")
_PIECE_BYTES = 64 * 10**6

_log = logging.getLogger("elastune")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeShipment:
    """`recipe` is the trainable as opened here, before any node is paid for."""

    script: CodeReference
    recipe: Recipe
    preload: tuple[str, ...]
    paths: tuple[str, ...]
    shared: tuple[Path, ...] = ()
    """Files of shared data that the pickled trainable needs."""

    @property
    def most_slots(self) -> int | None:
        """The largest useful gang; None: any. Gangs of several workers communicate through torch."""
        return self.recipe.most_slots if importlib.util.find_spec("torch") is not None else 1


def ship(job: Job, metric: str) -> CodeShipment:
    """Open the trainable of a job and describe it for the workers. Raises `JobError` if it is invalid."""
    trainable = job.trainable
    if isinstance(trainable, CurveFile):
        raise JobError(f"trainable is the curve file {trainable.path}, which can be simulated only")
    if trainable is None:
        raise JobError("trainable is missing; expected a class or a generator function, path/to/file.py:name")
    paths = [str(Path.cwd())]
    needed: tuple[Path, ...] = ()
    if isinstance(trainable, str):
        user, home = load(trainable), trainable.rpartition(":")[0]
        name, reference, source, pickled = trainable, trainable, None, None
        if home.endswith(".py"):
            path = Path(home).resolve()
            reference = f"{path}:{trainable.rpartition(':')[2]}"
            source = path.read_text(encoding="utf-8")
            paths.append(str(path.parent))
    else:
        user, reference, source = trainable, None, None
        name = getattr(trainable, "__qualname__", type(trainable).__qualname__)
        pickled, needed = _pickle(trainable, name)
    recipe = open_recipe(
        user, name=name, metric=metric, fidelity=job.fidelity, hyperparameters=_hyperparameters(job)
    )
    script = CodeReference(
        name=name,
        metric=metric,
        fidelity=job.fidelity,
        saves=job.saves is not False,
        reference=reference,
        pickled=pickled,
        source=source,
    )
    used = _used_by(user) if reference is not None else sys.modules
    preload = tuple(module for module in _FORKABLE if module in used)
    return CodeShipment(script=script, recipe=recipe, preload=preload, paths=tuple(paths), shared=needed)


def _used_by(user: object) -> Collection[str]:
    """The modules that the module of the user's code has imported, directly or through others. This process
    may have imported more: our own libraries, those of a notebook, or of other trainables. What uses nothing
    but the standard library, such as a `functools.partial`, says nothing; then it is all of this process."""
    first = getattr(user, "__module__", type(user).__module__)
    if first not in sys.modules or _is_alien(first):
        return sys.modules
    found, unseen = {first}, [first]
    while unseen:
        for value in tuple(getattr(sys.modules[unseen.pop()], "__dict__", {}).values()):
            name = _home_of(value)
            if name in sys.modules and name not in found and not _is_alien(name):
                found.add(name)
                if name.partition(".")[0] not in _FORKABLE:
                    unseen.append(name)
    return found | {name.partition(".")[0] for name in found}


def _home_of(value: object) -> str:
    """The module that this is, or that defines it."""
    if isinstance(value, ModuleType):
        return value.__name__
    definition = value if isinstance(value, type | FunctionType) else type(value)
    return str(definition.__module__)


def _is_alien(module: str) -> bool:
    """Whether it says nothing about the user's code: the standard library, or ours but for the adapters."""
    package = module.partition(".")[0]
    return package in sys.stdlib_module_names or (
        package == "elastune" and not module.startswith("elastune.adapters.")
    )


def _hyperparameters(job: Job) -> set[str]:
    """As far as they are known without importing code; the fidelity is in the configuration as well."""
    written = set(job.space.entries) if isinstance(job.space, Space) else set()
    return written | ({job.fidelity} if job.fidelity is not None else set())


def pack_up(shipment: CodeShipment, *, runs: Path) -> CodeBundle:
    """For nodes on other machines: the working folder and, if it does not hold the trainable's file, that
    file's folder, and shared data. Ray's object store sends them once to each node. The folder `runs` is left
    out."""
    import ray  # noqa: PLC0415

    folders: list[Path] = []
    for path in map(Path, shipment.paths):
        if not any(path.is_relative_to(folder) for folder in folders):
            folders.append(path)
    parcels = []
    for folder in folders:
        packed = pack(folder, without=(runs,))
        if packed.left_behind:
            _log.warning(
                "too large to send to the nodes: %s; put data into a storage that all nodes can read",
                several(packed.left_behind),
            )
        parcels.append(CodeParcel(origin=packed.origin, data=ray.put(packed.data)))
    shared = tuple(SharedParcel(name=path.name, pieces=tuple(_put(path))) for path in shipment.shared)
    return CodeBundle(machine=this_machine(), parcels=tuple(parcels), shared=shared)


def _put(path: Path) -> Iterator[Any]:
    """A file in the object store, in pieces."""
    import ray  # noqa: PLC0415

    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield ray.put(piece)


def _pickle(trainable: object, name: str) -> tuple[bytes, tuple[Path, ...]]:
    """By value if defined in a script or a notebook, which workers cannot import; and the shared data that
    it uses."""
    try:
        return dump(trainable)
    except ElastuneError:
        raise
    except Exception as error:
        raise JobError(
            f"trainable {name} cannot be sent to the workers: {error}; expected one without open files, "
            "locks or connections: open them in setup, or in the function"
        ) from error
