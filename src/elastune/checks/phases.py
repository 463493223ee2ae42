"""The steps of a check, each in a process of its own: one worker, a new one that continues, two together.

Together they train at most three iterations on one slot. Where loops are those of the worker, all but the
first are cut short, and the first one after some seconds.
"""

from __future__ import annotations

import contextlib
import gc
import math
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from elastune.checkpoints.encoding import decode, encode
from elastune.checks.comparing import (
    WatchedConfig,
    WatchedState,
    changed_arrays,
    differences,
    float_arrays,
    unwatched,
)
from elastune.checks.messages import DetourSeen, GangSeen, ProbeOrder, RankSeen, SoloSeen, UserFault
from elastune.checks.remembered import GradientWatch, left_out, models_by_name, orphaned, remembered
from elastune.checks.sizes import HeldValue, has, large_values
from elastune.checks.source import is_raised_by_library, raised_at
from elastune.checks.unsaved_memory import GlobalWatch, counters_of, named_by, unsaved_optimizers
from elastune.errors import ElastuneError
from elastune.runtime.ray.slot import open_script
from elastune.training.devices import find_device
from elastune.training.groups import Group, Solo, open_rendezvous
from elastune.training.recipe import Recipe
from elastune.training.running import MetricMissingError, Row, Training, join
from elastune.training.seeding import has_drawn
from elastune.training.shared_data import explain_read_only, refuse_writes, shared_bytes
from elastune.training.sharing import SNAPSHOT_AT, Tape
from elastune.training.unsaved import is_no_model
from elastune.training.worker import Worker, make_worker

# The first iteration is measured if it is shorter than this.
_FIRST_S = 15.0
_FORMING_S = 60.0
_MOST_LEAVES = 200
# Libraries that use a GPU without torch.
_OTHERS_ON_GPUS = ("jax", "tensorflow", "xgboost", "cupy", "lightgbm", "catboost")

Say = Callable[[str], None]


@contextlib.contextmanager
def faults_into(seen: SoloSeen | DetourSeen | RankSeen) -> Iterator[None]:
    try:
        yield
    except BaseException as error:  # noqa: BLE001  also exit() in the user's code
        explain_read_only(error)
        with contextlib.suppress(OSError, ValueError):  # the user's code may have closed it
            traceback.print_exc()
        kind = "" if isinstance(error, ElastuneError) else f"{type(error).__name__}: "
        place = raised_at(error.__traceback__)
        trace = "".join(traceback.format_exception(error)[-12:])
        by_library = not isinstance(error, ElastuneError) and is_raised_by_library(error.__traceback__)
        reported = error.reported if isinstance(error, MetricMissingError) else None
        seen.fault = UserFault(
            stage=seen.stage,
            error=kind + _text_of(error),
            place=place,
            trace=trace,
            by_library=by_library,
            reported=reported,
        )


def _text_of(error: BaseException) -> str:
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


class ProbeVisits:
    """One iteration of a training; where data are partitioned, a visit to one partition per rank."""

    def __init__(self, order: ProbeOrder) -> None:
        self._take: Callable[[Worker, int], None] | None = None
        self._has_read = False
        self._pickles = order.pickles
        dataset = order.dataset
        if dataset is None:
            return
        from elastune.data.partition_cache import SlotPartitions  # noqa: PLC0415  most jobs do not need it

        partitions = SlotPartitions(dataset, None, None)
        self._training, self._evaluates = len(dataset.training), partitions.evaluates

        def take(worker: Worker, number: int) -> None:
            self._has_read |= worker.has_read_data
            loaded = partitions.take(number, (number,))
            worker.show(loaded.data, partition=number, rows=loaded.rows)

        self._take = take

    def ignores_data(self, worker: Worker) -> bool:
        """Whether there are partitions and the training has never asked for one."""
        return self._take is not None and not (self._has_read or worker.has_read_data)

    def show(self, worker: Worker) -> None:
        if self._take is not None:
            self._take(worker, worker.rank % self._training)

    def iterate(self, worker: Worker, training: Training) -> Row | None:
        self.show(worker)
        row = training.step()
        if row is None or self._take is None or not self._evaluates:
            return row
        self._take(worker, self._training)
        return {**row, **training.evaluate()}

    def overwritten(self, worker: Worker, training: Training) -> list[str]:
        """Arrays of the state that another evaluation changes."""
        if self._take is None or not self._evaluates:
            return []
        before = self._arrays(training)
        self._take(worker, self._training)
        training.evaluate()
        return changed_arrays(before, self._arrays(training))

    def _arrays(self, training: Training) -> Mapping[str, Any]:
        """Of the state as a checkpoint has it; errors of `save` are reported where it is called next."""
        with contextlib.suppress(Exception):
            return float_arrays(decode(encode(training.save(), pickles=self._pickles), pickles=self._pickles))
        return {}


def is_model(recipe: Recipe, state: Any) -> bool:
    """Whether a trial can continue from this state. A trainable that cannot be saved has none, or a record
    without a model, and trains again from its beginning."""
    return bool(getattr(recipe, "saves", True)) and not (isinstance(state, Mapping) and "elastune" in state)


def _start(order: ProbeOrder, worker: Worker, recipe: Recipe, state: Any, visits: ProbeVisits) -> Training:
    visits.show(worker)
    return recipe.start(dict(order.configs[0]), worker, state)


def train_alone(order: ProbeOrder, say: Say) -> SoloSeen:
    """Two iterations of one worker; the states after each are files."""
    seen, tape = SoloSeen(stage="device"), Tape(most_s=_FIRST_S if order.shortened else None)
    began = time.monotonic()
    with faults_into(seen):
        seen.device = find_device(order.gpus, where="on this machine")
        seen.stage = "import"
        recipe, visits = open_script(order.script), ProbeVisits(order)
        worker = make_worker(Solo(), seed=order.seed, device=seen.device, threads=order.threads)
        worker.tape = tape
        outside = GlobalWatch(recipe.user)
        seen.stage = "setup"
        visits.show(worker)
        config = WatchedConfig(order.configs[0])
        training = recipe.start(config if order.watched else dict(config), worker, None)
        seen.startup_s = time.monotonic() - began
        seen.memory.append(remembered(training))
        for number in (1, 2):
            seen.stage = f"iteration {number}"
            say(seen.stage)
            if number == 2 and order.shortened and "batches" in tape.calls:
                tape.limit(SNAPSHOT_AT)
            worker.iteration = number
            began = time.monotonic()
            row = visits.iterate(worker, training)
            if row is None:
                seen.ended = True
                break
            seen.rows.append(row)
            seen.ignores_data = visits.ignores_data(worker)
            seen.seconds.append(None if tape.was_cut else time.monotonic() - began)
            seen.counters.append(counters_of(training))
            seen.memory.append(remembered(training))
            seen.draws = has_drawn() if number == 2 else True
            if number == 1:
                refuse_writes()
                seen.waiting = GradientWatch(training).waiting
                seen.held, seen.learns = _held_by(training, worker), _holds_parameters()
                seen.diverged = not math.isfinite(row.get(order.script.metric, 0.0))
            seen.stage = f"save after iteration {number}"
            seen.saves = not seen.diverged and _save(order, recipe, training, number, seen)
            if not seen.saves:
                break
        seen.changed = outside.changed()
        if order.watched:
            seen.unread, seen.missed = config.unread(), config.missed()
            seen.hyperparameters = len(order.configs[0])
        seen.stage = "close"
        training.close()
    seen.calls, seen.snapshot, seen.was_cut = frozenset(tape.calls), tape.snapshot, tape.was_cut
    seen.peak_bytes, seen.gpu_bytes = _peak_bytes(), _gpu_bytes(seen.device)
    seen.shared_bytes = shared_bytes()
    return seen


def _save(order: ProbeOrder, recipe: Recipe, training: Training, number: int, seen: SoloSeen) -> bool:
    """Whether there was a model to save."""
    began = time.monotonic()
    state = training.save()
    seen.offers_save = not is_no_model(state)
    if not is_model(recipe, state):
        return False
    data = encode(state, pickles=order.pickles)
    if number == 2:
        seen.left_out = left_out(training, state, *seen.memory[-2:])
    if number == 1:
        seen.save_s, seen.state_bytes = time.monotonic() - began, len(data)
    (Path(order.folder) / f"state-{number}").write_bytes(data)
    return True


def _read(order: ProbeOrder, number: int) -> Any:
    return decode((Path(order.folder) / f"state-{number}").read_bytes(), pickles=order.pickles)


def continue_anew(order: ProbeOrder, *, shortened: bool, device: str) -> DetourSeen:
    """The second iteration again, by a new training in a new process, from the state after the first."""
    seen = DetourSeen()
    with faults_into(seen):
        recipe, visits = open_script(order.script), ProbeVisits(order)
        worker = make_worker(Solo(), seed=order.seed, device=device, threads=order.threads)
        worker.tape = Tape(most_batches=SNAPSHOT_AT if shortened else None)
        state = _read(order, 1)
        given = WatchedState(state) if type(state) is dict else state
        seen.stage = "load"
        training = _start(order, worker, recipe, given, visits)
        seen.memory, seen.orphaned = remembered(training), orphaned(training)
        seen.stage = "iteration 2 from a saved state"
        worker.iteration = 2
        seen.row = visits.iterate(worker, training)
        seen.unsaved, seen.counters = unsaved_optimizers(training, state), counters_of(training)
        if isinstance(given, WatchedState):
            seen.was_read, seen.unread = bool(given.read), given.unread()
        seen.stage = "save after iteration 2"
        if seen.row is not None and (Path(order.folder) / "state-2").exists():
            found = decode(encode(unwatched(training.save()), pickles=order.pickles), pickles=order.pickles)
            seen.differing = list(differences(found, _read(order, 2)))[:_MOST_LEAVES]
            seen.overwritten = visits.overwritten(worker, training)
        training.close()
        if seen.differing:
            _diagnose(order, recipe, visits, seen, device)
    return seen


def _diagnose(order: ProbeOrder, recipe: Recipe, visits: ProbeVisits, seen: DetourSeen, device: str) -> None:
    """For a class: which parts of a state `load` does not restore. Trains nothing."""
    if not isinstance(recipe.user, type):
        return
    with contextlib.suppress(Exception):  # not every class can be saved before its first step
        worker = make_worker(Solo(), seed=order.seed, device=device, threads=order.threads)
        worker.enter_setup()
        visits.show(worker)
        instance, state = recipe.user(), _read(order, 1)
        instance.setup(dict(order.configs[0]), worker)

        def saved() -> Any:
            return decode(encode(instance.save(), pickles=order.pickles), pickles=order.pickles)

        changed = {each.path for each in differences(saved(), state)}
        instance.load(_read(order, 1))
        seen.lost = [each.path for each in differences(saved(), state) if each.path in changed]
        seen.changed = len(changed)


def train_together(
    order: ProbeOrder, connect: Callable[[], Group], *, shortened: bool, device: str, say: Say
) -> RankSeen:
    """One iteration of one of two workers."""
    seen = RankSeen()
    with faults_into(seen):
        group = connect()
        recipe, visits = open_script(order.script), ProbeVisits(order)
        worker = make_worker(group, seed=order.seed, device=device, threads=order.threads)
        worker.tape = tape = Tape(most_batches=SNAPSHOT_AT if shortened else None)
        seen.stage = "setup on two workers"
        training = _start(order, worker, recipe, None, visits)
        seen.stage = "iteration 1 on two workers"
        if not group.rank:
            say(seen.stage)
        worker.iteration = 1
        seen.row = visits.iterate(worker, training)
        seen.exchanges, seen.weights, seen.buffers = worker.exchanges, tape.weights(), tape.buffers()
        seen.given, seen.snapshot, seen.models = tape.seen, tape.snapshot, models_by_name(training)
        seen.stage = "save on two workers"
        if seen.row is not None and is_model(recipe, state := training.save()):
            file = Path(order.folder) / f"rank-{group.rank}"
            file.write_bytes(encode(state, pickles=order.pickles))
            seen.state = str(file)
        training.close()
        group.agree(0)  # none leaves while another still needs it
        group.close()
    return seen


def compare_ranks(order: ProbeOrder, ranks: list[RankSeen]) -> GangSeen:
    files = [rank.state for rank in ranks]
    gang = GangSeen(ranks=ranks)
    if all(files):
        first, second = (
            decode(Path(file).read_bytes(), pickles=order.pickles) for file in files if file is not None
        )
        gang.differing = list(differences(second, first))[:_MOST_LEAVES]
    return gang


def join_pair(rank: int, channel: Connection) -> Group:
    """`channel` passes the port from rank 0 to rank 1."""
    if rank:
        host, port = channel.recv()
        return join(host, port, rank=1, size=2, timeout_s=_FORMING_S)
    own = open_rendezvous("127.0.0.1")
    channel.send((own.host, own.port))
    return join(own.host, own.port, rank=0, size=2, timeout_s=_FORMING_S, rendezvous=own)


def _held_by(training: Any, worker: Worker) -> tuple[HeldValue, ...]:
    """Large values of the training."""
    # What is learned has to be there: models and optimizers.
    data = {name: value for name, value in named_by(training).items() if not has(value, "state_dict")}
    ours = {name for name, value in data.items() if value is worker or isinstance(value, WatchedConfig)}
    return tuple(large_values({name: value for name, value in data.items() if name not in ours}))


def _holds_parameters() -> bool:
    """Whether torch trains anything in this process, wherever it is held."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    gc.collect()  # leave out what is not used any more
    # Not isinstance: it would ask the object for its class, and some objects answer with an error.
    tensors = (each for each in gc.get_objects() if issubclass(type(each), torch.Tensor))
    return any(each.is_leaf and each.requires_grad for each in tensors)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def _gpu_bytes(device: str) -> int | None:
    torch = sys.modules.get("torch")
    if not device.startswith("cuda") or torch is None or any(name in sys.modules for name in _OTHERS_ON_GPUS):
        return None
    return int(torch.cuda.max_memory_allocated())
