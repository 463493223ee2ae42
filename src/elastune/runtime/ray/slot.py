"""A slot process: warm, one per slot, it joins one gang after the other until its node is released."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TextIO

from elastune.errors import UnreadableError
from elastune.runtime.ray import messages as msg
from elastune.runtime.ray.member import Dissolved, GangMember
from elastune.runtime.ray.slot_io import Mailbox, Reporter, SlotContext
from elastune.training.devices import find_device
from elastune.training.recipe import Recipe, load, open_recipe
from elastune.training.shared_data import explain_read_only, use_folders

if TYPE_CHECKING:
    from elastune.runtime.ray.visitor import Visitor

_BROKEN = 70
_MOST_CHARACTERS = 8_000
# A lost peer is the result of another rank's error, whose report should come first.
_PEER_DELAY_S = 0.3
_PEER_WORDS = ("gloo", "connection", "peer", "nccl", "could not form a gang")


def main(channel: Connection, slot: int, worker_spec: msg.WorkerSpec) -> None:
    """Never returns: the process ends with its channel, or after an error of the user's code."""
    reporter = Reporter(channel)
    mailbox = Mailbox(channel, reporter)
    _take_gpus(slot, worker_spec)
    use_folders(worker_spec.shared)
    try:
        worker_spec.store.check_reach()
        recipe = open_script(worker_spec.script)
        device = find_device(worker_spec.gpus_per_slot, where="on this node")
    except BaseException as error:  # noqa: BLE001  the user's module may do anything when it is imported
        explain_read_only(error)
        reporter.send(msg.SlotUnfit(slot=slot, error=_last_lines(traceback.format_exc())))
        time.sleep(_PEER_DELAY_S)
        os._exit(_BROKEN)
    partitions = None
    if worker_spec.dataset is not None:
        from elastune.data.partition_cache import SlotPartitions  # noqa: PLC0415  most jobs do not need it

        partitions = SlotPartitions(worker_spec.dataset, worker_spec.data_bytes, worker_spec.spill)
    context = SlotContext(
        worker_spec=worker_spec,
        recipe=recipe,
        mailbox=mailbox,
        reporter=reporter,
        device=device,
        partitions=partitions,
    )
    reporter.send(msg.SlotReady(slot=slot, pid=os.getpid()))
    while True:
        form = mailbox.next_form()
        reporter.begin(form.gang)
        with _environment_restored(), _output_to(worker_spec.logs, form):
            outcome = _train(_member(context, form))
        if outcome is not None:
            if outcome.unreadable is not None:
                reporter.send(msg.Unreadable(error=outcome.unreadable))
            reporter.end(outcome.error, fault=outcome.fault)
            os._exit(_BROKEN)  # and all that the user's code left behind
        reporter.end()
        reporter.send(msg.SlotIdle(slot=slot))


def _member(context: SlotContext, form: msg.Form) -> GangMember | Visitor:
    """What trains here now: a member of a gang, or a model that visits a partition."""
    if form.visit is None or context.partitions is None:
        return GangMember(context, form)
    from elastune.runtime.ray.visitor import Visitor  # noqa: PLC0415

    return Visitor(context, form)


@contextlib.contextmanager
def _environment_restored() -> Iterator[None]:
    """The next trial gets the same folder, path and environment as this one."""
    folder, path, environment = Path.cwd(), sys.path[:], dict(os.environ)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(folder)
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)


class OrderOutcome(NamedTuple):
    """What broke a gang here; `fault`: the user's code did, not a lost peer."""

    error: str
    fault: bool
    unreadable: str | None = None
    """Why the data cannot be read."""


def open_script(script: msg.CodeReference) -> Recipe:
    if script.pickled is not None:
        user = pickle.loads(script.pickled)  # noqa: S301  from our own driver
    elif script.reference is None:
        raise RuntimeError("the code reference has neither a name nor a pickled object")
    else:
        home, _, name = script.reference.rpartition(":")
        if script.source is not None and not Path(home).is_file():
            user = getattr(_from_source(home, script.source), name)
        else:
            user = load(script.reference)
    recipe = open_recipe(user, name=script.name, metric=script.metric, fidelity=script.fidelity)
    return replace(recipe, saves=recipe.saves and script.saves)


def _from_source(home: str, source: str) -> ModuleType:
    """The file is on the driver's machine only."""
    module = ModuleType(f"elastune_trainable_{Path(home).stem}")
    module.__file__ = home
    sys.modules[module.__name__] = module
    exec(compile(source, home, "exec"), module.__dict__)  # noqa: S102  the user's own file
    return module


def _train(member: GangMember | Visitor) -> OrderOutcome | None:
    try:
        member.run()
    except Dissolved:
        return None
    except BaseException as error:  # noqa: BLE001  also exit() in the user's code
        if member.pending.dissolved:
            return None
        explain_read_only(error)
        text = traceback.format_exc()
        with contextlib.suppress(OSError, ValueError):  # the user's code may have closed it
            sys.stderr.write(text)
        if isinstance(error, UnreadableError):
            return OrderOutcome(str(error), fault=False, unreadable=str(error))
        peer = member.form.size > 1 and any(word in str(error).lower() for word in _PEER_WORDS)
        if peer:
            time.sleep(_PEER_DELAY_S)
        return OrderOutcome(_last_lines(text), fault=not peer)
    return None


def _last_lines(text: str, most: int = 40) -> str:
    lines = text.strip()[-_MOST_CHARACTERS:].splitlines()
    return "\n".join(lines if len(lines) <= most else ["...", *lines[-most:]])


@contextlib.contextmanager
def _output_to(logs: str | None, form: msg.Form) -> Iterator[None]:
    """Write the output of the user's code to the log of its trial, also from C libraries."""
    if logs is None:
        yield
        return
    path = Path(logs) / msg.log_name(form.gang.trial, form.rank)
    kept, streams = list[int](), (sys.stdout, sys.stderr)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        kept = [os.dup(1), os.dup(2)]
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.close(handle)
    except OSError:
        pass  # a log that cannot be written must not fail the trial
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # a full disk, or closed by the user's code
                stream.flush()
        for number, before in enumerate(kept, start=1):
            os.dup2(before, number)
            os.close(before)
        sys.stdout, sys.stderr = (_usable(stream, number) for number, stream in enumerate(streams, start=1))


def _usable(stream: TextIO, number: int) -> TextIO:
    """The next trial prints as well, if this one has closed or replaced its output."""
    if not stream.closed:
        return stream
    return open(number, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)


def _take_gpus(slot: int, worker_spec: msg.WorkerSpec) -> None:
    """Each slot sees its own GPUs of those that Ray gave to the node."""
    per_slot = worker_spec.gpus_per_slot
    if not per_slot:
        return
    visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(visible[slot * per_slot : (slot + 1) * per_slot])
