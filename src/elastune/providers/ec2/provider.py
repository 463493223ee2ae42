"""Rents EC2 instances to a run."""

from __future__ import annotations

import contextlib
import getpass
import importlib.metadata
import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

from elastune.errors import ExecutionError, JobError
from elastune.model.ids import NodeId
from elastune.providers.ec2.api import Ec2Api
from elastune.providers.ec2.boot import BootScript, render
from elastune.providers.ec2.broker import Broker, CallPurpose
from elastune.providers.ec2.calls import CloudError, Ec2Calls, Ec2Options, RefusedError
from elastune.providers.ec2.fleet import LEASE_S, SHUTDOWN_S, Clocks
from elastune.providers.ec2.inventory import end_and_check, end_unchecked
from elastune.providers.ec2.offerings import list_offerings
from elastune.providers.protocol import ProviderSetting
from elastune.providers.ray_cluster import FinalCheck, RayLink, RayMembership
from elastune.providers.remote.brokered import BootResult, BrokeredProvider, failed_in_a_row
from elastune.wording import seen

_log = logging.getLogger("elastune")

_RAY_MODE = "RAY_AUTH_MODE"
_MOST_SILENCE_S = 1800.0
"""The longest time before its end in which a driver may have written nothing into its journal."""
_BY_EC2 = "Server."
"""The reason of an instance that did not end by itself begins with this."""


class Ec2Provider(BrokeredProvider[Broker]):
    """Runs on the head of the Ray cluster that its instances join. `cloud` and `ray_link` are for tests."""

    service = "EC2"
    service_error = CloudError
    refusal = RefusedError

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_gpus: int = 0,
        slot_cpus: int = 1,
        cloud: Ec2Calls | None = None,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus, ray_link=ray_link)
        self._options = Ec2Options.parse(setting.options)
        self._cloud = cloud
        self._api: Ec2Api | None = None
        self._membership: RayMembership | None = None
        self._failures: dict[str, str] = {}
        """Why nodes ended before they were up."""

    def connect(self) -> None:
        if self._ray_link is None:
            _refuse_missing_token(self._options)
            self._membership = RayMembership(self._options.head)
            self._ray_link = RayLink()

    def disconnect(self) -> None:
        if self._membership is not None:
            self._membership.leave()
            self._membership = None

    def broker_clock(self) -> float:
        return time.time()

    def end_and_check(self, broker: Broker) -> FinalCheck:
        return end_and_check(broker)

    def end_unchecked(self, broker: Broker) -> FinalCheck:
        return end_unchecked(broker)

    # A drained node without work leaves Ray at once, so `resources` are all.

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        known = self.billed_s(node)
        if known is not None:
            return max(0.0, known - age_s)
        return min(down_s, _MOST_SILENCE_S + LEASE_S + SHUTDOWN_S)

    def billed_s(self, node: NodeId) -> float | None:
        return self._opened().fleet.billed_s(node)

    def make_broker(self) -> Broker:
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

    def check_terms(self, broker: Broker) -> None:
        """Whether EC2 would launch the job's instances (rights, image and the rest), at no cost."""
        if self._api is None:
            return
        try:
            self._api.check(broker.specimen())
        except RefusedError as error:
            raise ExecutionError(f"no instance could be launched. {error}") from None
        except CloudError:
            return  # no capacity now, or too many calls: that may change

    def after_round(self, broker: Broker) -> str | None:
        self._report_failed_starts(broker)
        return self._hopeless_boot(broker)

    # Private.

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
        """Those that EC2 took away do not count as failed."""
        failed = frozenset(broker.fleet.failed_starts())
        members = ((id_, broker.fleet[id_]) for id_ in broker.fleet)
        in_a_row = failed_in_a_row(
            BootResult(
                node=id_,
                token=member.machine.token,
                is_up=member.machine.ready_s is not None,
                has_failed=id_ in failed and not member.instance.reason.startswith(_BY_EC2),
            )
            for id_, member in members
        )
        if not in_a_row:
            return None
        last = self._failures.get(in_a_row[-1], in_a_row[-1])
        return f"{len(in_a_row)} nodes in a row ended while they booted, and more would; the last: {last}"


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
