"""Rents EC2 instances to a run: the broker in a thread of its own, and a front that never waits for AWS."""

from __future__ import annotations

import contextlib
import getpass
import importlib.metadata
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from random import Random
from types import TracebackType
from typing import Protocol, Self

from elastune.errors import ExecutionError, InvariantError, JobError
from elastune.model.ids import NodeId
from elastune.providers.ec2.api import Ec2Api
from elastune.providers.ec2.boot import BootScript, render
from elastune.providers.ec2.broker import Broker, CallPurpose
from elastune.providers.ec2.calls import CloudError, Ec2Calls, Ec2Options, RefusedError
from elastune.providers.ec2.fleet import LEASE_S, PARTING_S, Clocks
from elastune.providers.ec2.inventory import flee, take_leave
from elastune.providers.ec2.offerings import list_offerings
from elastune.providers.protocol import Price, ProviderSetting, Survey
from elastune.providers.ray_cluster import FinalCheck, RayMembership, draining_nodes, ray_nodes_by_instance
from elastune.wording import seen

_log = logging.getLogger("elastune")
_ray_log = logging.getLogger("elastune.ray")

_FIRST_LOOK_TRIES = 8
_FRESH_S = 0.5
"""For so long the last look at Ray is good enough for a survey."""
_RAY_MODE = "RAY_AUTH_MODE"
_MOST_STILLBORN = 4
_MOST_SILENCE_S = 1800.0
"""So long before its end a driver may have had nothing to write into its journal."""
_BY_EC2 = "Server."
"""So begins the reason of an instance that did not end by itself."""


class RayLink(Protocol):
    """From instances to Ray nodes, as the head sees them."""

    def joined(self) -> Mapping[str, str]:
        """Ray's ids of instances whose Ray node is up."""
        ...

    def leaving(self) -> Mapping[str, float]:
        """By Ray's id, until when a node that was given notice is there; seconds since 1970."""
        ...


class OpenRayLink:
    def joined(self) -> Mapping[str, str]:
        return ray_nodes_by_instance()

    def leaving(self) -> Mapping[str, float]:
        now = time.time()  # one that was drained without a time may go at once
        return {node: max(now, until) for node, until in draining_nodes().items()}


class Ec2Provider:
    """Runs on the head of the Ray cluster that its instances join.

    `cloud` and `crossing` are EC2 and Ray themselves unless others are given.
    """

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_gpus: int = 0,
        slot_cpus: int = 1,
        cloud: Ec2Calls | None = None,
        crossing: RayLink | None = None,
    ) -> None:
        self._setting = setting
        self._options = Ec2Options.parse(setting.options)
        self._slot_gpus = slot_gpus
        self._slot_cpus = slot_cpus
        self._cloud = cloud
        self._api: Ec2Api | None = None
        self._crossing = crossing
        self._joining: RayMembership | None = None
        self._broker: Broker | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ends = False
        self._asked: dict[str, int] = {}
        self._inbox: list[Callable[[Broker], None]] = []
        self._released: set[NodeId] = set()
        """Given back, and not yet known to the broker."""
        self._until_s: float | None = None
        """The lease as it was when the inbox was emptied last: what the two say belongs together."""
        self._survey = Survey(at_s=0.0)
        self._broken: str | None = None
        self._ray_nodes: Mapping[str, str] = {}
        self._looked_s: float | None = None
        self._final_check: FinalCheck | None = None
        self._told: dict[str, str] = {}
        """Why nodes ended before they were up."""
        self._undo = contextlib.ExitStack()

    # Life.

    def open(self) -> None:
        """Connect to Ray and to EC2, and see what an earlier driver of this run has left."""
        if self._broker is not None or self._ends:
            raise InvariantError("the EC2 provider is open already, or was; make a new one")
        if self._crossing is None:
            _refuse_missing_token(self._options)
            self._joining = RayMembership(self._options.head)
            self._undo.enter_context(_ray_does_not_print())
            self._crossing = OpenRayLink()
        try:
            self._broker = self._hire()
            self._first_look(self._broker)
            self._rehearse(self._broker)
        except BaseException:
            self._broker = None  # which has launched nothing that somebody would have to end
            self._leave_ray()
            raise
        self._thread = threading.Thread(target=self._serve, name="elastune-ec2", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End every instance of the run, and look whether they are gone. May be repeated."""
        broker, thread = self._broker, self._thread
        self._ends = True
        self._wake.set()
        try:
            if thread is not None:
                thread.join()
            if broker is not None:
                self._final_check = take_leave(broker)
        except BaseException:  # somebody is in a hurry: at least EC2 is told
            if broker is not None:
                self._final_check = flee(broker)
            raise
        finally:
            self._broker = self._thread = None
            self._leave_ray()

    def final_check(self) -> FinalCheck | None:
        return self._final_check

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The four verbs.

    def request(self, token: str, count: int) -> None:
        self._opened()
        if count < 1:
            raise InvariantError(f"request {token!r} asks for {count} nodes, expected at least 1")
        asked = self._asked.setdefault(token, count)
        if asked != count:
            raise InvariantError(
                f"request {token!r} asked for {asked} nodes and now for {count}: "
                "a token stands for one request, take a new one"
            )
        self._post(lambda broker: broker.request(token, count))

    def survey(self) -> Survey:
        self._opened()
        self._look_at_ray()
        with self._lock:
            told = self._survey
            machines = tuple(each for each in told.machines if each.node not in self._released)
        return replace(told, at_s=max(told.at_s, self._setting.clock()), machines=machines)

    def release(self, nodes: Collection[NodeId]) -> None:
        self._opened()
        gone = frozenset(nodes)
        with self._lock:
            self._released |= gone
        self._post(lambda broker: broker.release(gone))

    def price(self) -> Price:
        terms = self._setting.terms
        return Price.of(terms, terms.price_source)

    # What a run on Ray asks beside.

    @property
    def broken(self) -> str | None:
        """EC2 refuses for good: a right is missing, or an option is wrong."""
        return self._broken

    @property
    def is_elsewhere(self) -> bool:
        return True

    def ray_node(self, node: NodeId) -> str | None:
        return self._ray_nodes.get(node)

    def resources(self) -> tuple[float, float]:
        """A drained node that has no work leaves Ray at once, so all of it is taken."""
        slots = self._setting.terms.slots_per_node
        return float(slots * self._slot_cpus), float(slots * self._slot_gpus)

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        """For how long a node of `age_s` went on costing money while nobody was there for `down_s`."""
        known = self.billed_s(node)
        if known is not None:
            return max(0.0, known - age_s)
        return min(down_s, _MOST_SILENCE_S + LEASE_S + PARTING_S)

    def billed_s(self, node: NodeId) -> float | None:
        return self._opened().fleet.billed_s(node)

    # Behind.

    def _opened(self) -> Broker:
        if self._broker is None:
            raise InvariantError("the EC2 provider is not open: call open() before, nothing after close()")
        return self._broker

    def _post(self, order: Callable[[Broker], None]) -> None:
        with self._lock:
            self._inbox.append(order)
        self._wake.set()

    def _look_at_ray(self) -> None:
        now_s = self._setting.clock()
        if self._crossing is None or (self._looked_s is not None and 0 <= now_s - self._looked_s < _FRESH_S):
            return
        self._looked_s = now_s
        joined, leaving = self._crossing.joined(), self._crossing.leaving()
        new = [instance for instance in joined if instance not in self._ray_nodes]
        noticed = {id_: leaving[node] for id_, node in joined.items() if node in leaving}
        self._ray_nodes = {**self._ray_nodes, **joined}
        for instance in new:
            self._post(lambda broker, instance=instance: broker.join(instance, now_s))  # type: ignore[misc]
        if noticed:
            self._post(lambda broker: broker.notice(noticed))

    def _serve(self) -> None:
        """Until the end: what the run wants is handed on, what is due is done, what is known is told."""
        trouble: str | None = None
        while not self._ends:
            broker = self._broker
            if broker is None:
                return
            self._wake.clear()
            with self._lock:
                inbox, self._inbox = self._inbox, []
                released = frozenset(self._released)
                self._until_s = self._setting.lease()
            try:
                for order in inbox:
                    order(broker)
                due = broker.work()
                survey = broker.survey()
                self._report_failed_start(broker)
            except Exception as error:  # noqa: BLE001  our bug: better a run that rests than one that waits
                _log.exception("the EC2 provider broke")
                self._broken = f"the EC2 provider broke: {error!r}"
                return
            if broker.trouble is not None and broker.trouble != trouble:
                _log.warning("EC2: %s; trying again", broker.trouble)
            trouble = broker.trouble
            with self._lock:
                self._survey = survey
                self._released -= released
                self._broken = broker.broken or self._hopeless_boot(broker)
            self._wake.wait(max(0.0, min(due - time.time(), 5.0)))

    def _hire(self) -> Broker:
        setting, options = self._setting, self._options
        cloud = self._cloud or Ec2Api(options.region, options)
        self._api = cloud if isinstance(cloud, Ec2Api) else None
        return Broker(
            cloud,
            CallPurpose(
                run=setting.run,
                job=setting.job,
                owner=options.owner or _who(),
                offerings=list_offerings(options, setting.terms),
                max_nodes=setting.terms.max_nodes,
                usd_per_hour=setting.terms.price_per_hour,
                user_data=self._user_data(cloud),
            ),
            clocks=Clocks(wall=time.time, run=setting.clock),
            lease=lambda: self._until_s,
            luck=Random(setting.seed),  # noqa: S311  only to keep drivers out of step
            down_s=setting.down_s,
        )

    def _user_data(self, cloud: Ec2Calls) -> Callable[[float], str]:
        if self._joining is None:
            return lambda expires: f"#!/bin/bash\n# until {int(expires)}\n"
        options, setting = self._options, self._setting
        slots = setting.terms.slots_per_node
        boot = BootScript(
            head=self._joining.head,
            cpus=slots * self._slot_cpus,
            gpus=slots * self._slot_gpus,
            region=cloud.region if isinstance(cloud, Ec2Api) else options.region or "",
            expires=time.time() + LEASE_S,
            ray=importlib.metadata.version("ray"),
            elastune=options.elastune or f"elastune[aws]=={importlib.metadata.version('elastune')}",
            token_secret=options.token_secret,
            python=options.python,
            packages=options.packages,
            setup=options.setup,
            preinstalled=options.preinstalled,
            lost_head_after=options.lost_head_after,
        )
        render(boot)  # what is wrong with it is told before anything is launched
        return lambda expires: render(replace(boot, expires=expires))

    def _first_look(self, broker: Broker) -> None:
        for tries in range(_FIRST_LOOK_TRIES):
            try:
                broker.look_afresh()
            except CloudError as error:
                if tries == _FIRST_LOOK_TRIES - 1 or isinstance(error, RefusedError):
                    raise ExecutionError(f"EC2 cannot be used: {error}") from None
                time.sleep(min(8.0, 0.5 * 2**tries))
            else:
                break
        self._survey = broker.survey()

    def _rehearse(self, broker: Broker) -> None:
        """Whether EC2 would launch what will be asked for: rights, image and the rest, at no cost."""
        if self._api is None:
            return
        try:
            self._api.check(broker.specimen())
        except RefusedError as error:
            raise ExecutionError(f"no instance could be launched. {error}") from None
        except CloudError:
            return  # no capacity now, or too many calls: that may be otherwise later

    def _report_failed_start(self, broker: Broker) -> None:
        """Why a node ended while it booted is on its console, as soon as EC2 shows that."""
        for id_ in broker.fleet.stillborn():
            if id_ in self._told or self._api is None:
                continue
            said = ""
            with contextlib.suppress(CloudError):
                lines = self._api.console(id_).splitlines()
                said = next((line.strip() for line in reversed(lines) if "elastune: failed" in line), "")
            why = (
                said or f"{broker.fleet[id_].instance.reason or 'no reason was told'}; see its console in EC2"
            )
            self._told[id_] = f"{id_} ended before it was up: {why}"
            _log.warning("%s", self._told[id_])

    def _hopeless_boot(self, broker: Broker) -> str | None:
        """Nodes that end themselves as they boot, one after the other, would do so until the money is gone.

        Those that EC2 took away say nothing about the next ones.
        """
        in_a_row: dict[str, str] = {}
        stillborn = frozenset(broker.fleet.stillborn())
        for id_ in broker.fleet:
            if broker.fleet[id_].machine.ready_s is not None:
                in_a_row.clear()
            elif id_ in stillborn and not broker.fleet[id_].instance.reason.startswith(_BY_EC2):
                in_a_row[id_] = broker.fleet[id_].machine.token
        if len(in_a_row) < _MOST_STILLBORN or len(set(in_a_row.values())) < 2:
            return None  # those of one request fail together: the package index was away, say
        latest = list(in_a_row)[-1]
        last = self._told.get(latest, latest)
        return f"{len(in_a_row)} nodes in a row ended while they booted, and more would; the last: {last}"

    def _leave_ray(self) -> None:
        self._undo.close()
        if self._joining is not None:
            self._joining.leave()
            self._joining = None


def _refuse_missing_token(options: Ec2Options) -> None:
    """Ray would try for a long time, and nodes would come and go in vain."""
    has_token = os.environ.get(_RAY_MODE, "").lower() == "token"
    if options.token_secret is not None and not has_token:
        raise JobError(
            f"cluster.options.token_secret is given, so the Ray cluster asks for a token, but {_RAY_MODE} is "
            f"{seen(os.environ.get(_RAY_MODE))} here; expected {_RAY_MODE}=token, and RAY_AUTH_TOKEN_PATH "
            "with the file that holds the token"
        )
    if options.token_secret is None and has_token:
        raise JobError(
            f"{_RAY_MODE} is token, so the Ray cluster asks for one, but nodes would have none; expected "
            "cluster.options.token_secret with the name of the secret in Secrets Manager that holds it"
        )


@contextlib.contextmanager
def _ray_does_not_print() -> Iterator[None]:
    """It would tell of every node that goes, on standard output, where the run's own output goes."""
    from ray._private import worker  # noqa: PLC0415 - heavy

    printing = worker.print_to_stdstream
    worker.print_to_stdstream = lambda data, **_: _ray_log.info("%s", "\n".join(data.get("lines", ())))
    try:
        yield
    finally:
        worker.print_to_stdstream = printing


def _who() -> str:
    with contextlib.suppress(OSError, KeyError):
        return getpass.getuser()
    return ""
