"""Rents EC2 instances to a run: the broker works in its own thread, and no method waits for AWS."""

from __future__ import annotations

import contextlib
import getpass
import importlib.metadata
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from random import Random

from elastune.errors import ExecutionError, InvariantError, JobError
from elastune.model.ids import NodeId
from elastune.providers.ec2.api import Ec2Api
from elastune.providers.ec2.boot import BootScript, render
from elastune.providers.ec2.broker import Broker, CallPurpose
from elastune.providers.ec2.calls import CloudError, Ec2Calls, Ec2Options, RefusedError
from elastune.providers.ec2.fleet import LEASE_S, SHUTDOWN_S, Clocks
from elastune.providers.ec2.inventory import end_and_check, end_unchecked
from elastune.providers.ec2.offerings import list_offerings
from elastune.providers.protocol import Price, ProviderSetting, Survey, check_request
from elastune.providers.ray_cluster import FinalCheck, RayLink, RayMembership, RayProviderBase
from elastune.wording import seen

_log = logging.getLogger("elastune")

_FIRST_LOOK_TRIES = 8
_FRESH_S = 0.5
"""A survey reuses a listing of Ray's nodes that is younger than this."""
_RAY_MODE = "RAY_AUTH_MODE"
_MOST_FAILED_STARTS = 4
_MOST_SILENCE_S = 1800.0
"""The longest time before its end in which a driver may have written nothing into its journal."""
_BY_EC2 = "Server."
"""The reason of an instance that did not end by itself begins with this."""


class Ec2Provider(RayProviderBase):
    """Runs on the head of the Ray cluster that its instances join. `cloud` and `ray_link` are for tests."""

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_gpus: int = 0,
        slot_cpus: int = 1,
        cloud: Ec2Calls | None = None,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus)
        self._options = Ec2Options.parse(setting.options)
        self._cloud = cloud
        self._api: Ec2Api | None = None
        self._ray_link = ray_link
        self._membership: RayMembership | None = None
        self._broker: Broker | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ends = False
        self._asked: dict[str, int] = {}
        self._inbox: list[Callable[[Broker], None]] = []
        self._released: set[NodeId] = set()
        """Released, and not yet known to the broker."""
        self._until_s: float | None = None
        """The lease as it was when the inbox was last emptied, so that both are of the same instant."""
        self._survey = Survey(at_s=0.0)
        self._broken: str | None = None
        self._ray_nodes: Mapping[str, str] = {}
        self._looked_s: float | None = None
        self._final_check: FinalCheck | None = None
        self._failures: dict[str, str] = {}
        """Why nodes ended before they were up."""

    # Open and close.

    def open(self) -> None:
        """Connect to Ray and to EC2, and list what an earlier driver of this run has left."""
        if self._broker is not None or self._ends:
            raise InvariantError("the EC2 provider is open already, or was; make a new one")
        if self._ray_link is None:
            _refuse_missing_token(self._options)
            self._membership = RayMembership(self._options.head)
            self._ray_link = RayLink()
        try:
            self._broker = self._make_broker()
            self._first_look(self._broker)
            self._dry_run(self._broker)
        except BaseException:
            self._broker = None  # it has launched nothing
            self._leave_ray()
            raise
        self._thread = threading.Thread(target=self._serve, name="elastune-ec2", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End every instance of the run, and check that they are gone. May be repeated."""
        broker, thread = self._broker, self._thread
        self._ends = True
        self._wake.set()
        try:
            if thread is not None:
                thread.join()
            if broker is not None:
                self._final_check = end_and_check(broker)
        except BaseException:  # interrupted: one call to end everything, unchecked
            if broker is not None:
                self._final_check = end_unchecked(broker)
            raise
        finally:
            self._broker = self._thread = None
            self._leave_ray()

    def final_check(self) -> FinalCheck | None:
        return self._final_check

    # The four methods of a provider.

    def request(self, token: str, count: int) -> None:
        self._opened()
        check_request(token, count, self._asked.get(token))
        self._asked[token] = count
        self._post(lambda broker: broker.request(token, count))

    def survey(self) -> Survey:
        self._opened()
        self._look_at_ray()
        with self._lock:
            last = self._survey
            machines = tuple(each for each in last.machines if each.node not in self._released)
        return replace(last, at_s=max(last.at_s, self._setting.clock()), machines=machines)

    def release(self, nodes: Collection[NodeId]) -> None:
        self._opened()
        gone = frozenset(nodes)
        with self._lock:
            self._released |= gone
        self._post(lambda broker: broker.release(gone))

    def price(self) -> Price:
        terms = self._setting.terms
        return Price.of(terms, terms.price_source)

    # The additional methods for Ray. A drained node without work leaves Ray at once, so `resources` are all.

    @property
    def broken(self) -> str | None:
        """EC2 refuses permanently: a right is missing, or an option is wrong."""
        return self._broken

    @property
    def is_elsewhere(self) -> bool:
        return True

    def ray_node(self, node: NodeId) -> str | None:
        return self._ray_nodes.get(node)

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        known = self.billed_s(node)
        if known is not None:
            return max(0.0, known - age_s)
        return min(down_s, _MOST_SILENCE_S + LEASE_S + SHUTDOWN_S)

    def billed_s(self, node: NodeId) -> float | None:
        return self._opened().fleet.billed_s(node)

    # Private.

    def _opened(self) -> Broker:
        if self._broker is None:
            raise InvariantError("the EC2 provider is not open: call open() before, nothing after close()")
        return self._broker

    def _post(self, order: Callable[[Broker], None]) -> None:
        with self._lock:
            self._inbox.append(order)
        self._wake.set()

    def limit_nodes(self, most: int) -> None:
        super().limit_nodes(most)
        self._post(lambda broker: broker.limit_nodes(most))

    def _look_at_ray(self) -> None:
        now_s = self._setting.clock()
        if self._ray_link is None or (self._looked_s is not None and 0 <= now_s - self._looked_s < _FRESH_S):
            return
        self._looked_s = now_s
        joined, leaving = self._ray_link.joined(), self._ray_link.leaving()
        new = [instance for instance in joined if instance not in self._ray_nodes]
        noticed = {id_: leaving[node] for id_, node in joined.items() if node in leaving}
        self._ray_nodes = {**self._ray_nodes, **joined}
        for instance in new:
            self._post(lambda broker, instance=instance: broker.join(instance, now_s))  # type: ignore[misc]
        if noticed:
            self._post(lambda broker: broker.notice(noticed))

    def _serve(self) -> None:
        """The thread: pass the run's calls to the broker, make the calls that are due, update the survey."""
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
                self._report_failed_starts(broker)
            except Exception as error:  # noqa: BLE001  our bug: better a suspended run than one that waits
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

    def _make_broker(self) -> Broker:
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
            luck=Random(setting.seed),  # noqa: S311  only to spread retries of several drivers
            down_s=setting.down_s,
        )

    def _user_data(self, cloud: Ec2Calls) -> Callable[[float], str]:
        if self._membership is None:
            return lambda expires: f"#!/bin/bash\n# until {int(expires)}\n"
        options = self._options
        boot = BootScript(
            head=self._membership.head,
            cpus=self._node_cpus,
            gpus=self._node_gpus,
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
        render(boot)  # its errors are raised before anything is launched
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

    def _dry_run(self, broker: Broker) -> None:
        """Whether EC2 would launch the job's instances (rights, image and the rest), at no cost."""
        if self._api is None:
            return
        try:
            self._api.check(broker.specimen())
        except RefusedError as error:
            raise ExecutionError(f"no instance could be launched. {error}") from None
        except CloudError:
            return  # no capacity now, or too many calls: that may change

    def _report_failed_starts(self, broker: Broker) -> None:
        """A node writes to its console why it ended while it booted; EC2 shows that after a while."""
        for id_ in broker.fleet.failed_starts():
            if id_ in self._failures or self._api is None:
                continue
            why = f"{broker.fleet[id_].instance.reason or 'no reason given'}; see its console in EC2"
            with contextlib.suppress(CloudError):
                lines = reversed(self._api.console(id_).splitlines())
                why = next((line.strip() for line in lines if "elastune: failed" in line), why)
            self._failures[id_] = f"{id_} ended before it was up: {why}"
            _log.warning("%s", self._failures[id_])

    def _hopeless_boot(self, broker: Broker) -> str | None:
        """Nodes that end themselves while they boot, one after the other, would use up the budget.

        Those that EC2 took away do not count.
        """
        in_a_row: dict[str, str] = {}
        failed = frozenset(broker.fleet.failed_starts())
        for id_ in broker.fleet:
            if broker.fleet[id_].machine.ready_s is not None:
                in_a_row.clear()
            elif id_ in failed and not broker.fleet[id_].instance.reason.startswith(_BY_EC2):
                in_a_row[id_] = broker.fleet[id_].machine.token
        if len(in_a_row) < _MOST_FAILED_STARTS or len(set(in_a_row.values())) < 2:
            return None  # those of one request fail together, for example without a package index
        latest = list(in_a_row)[-1]
        last = self._failures.get(latest, latest)
        return f"{len(in_a_row)} nodes in a row ended while they booted, and more would; the last: {last}"

    def _leave_ray(self) -> None:
        if self._membership is not None:
            self._membership.leave()
            self._membership = None


def _refuse_missing_token(options: Ec2Options) -> None:
    """Without this, Ray would try for a long time, and no node could join."""
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


def _who() -> str:
    with contextlib.suppress(OSError, KeyError):
        return getpass.getuser()
    return ""
