"""Lists and ends instances in one region: those of every run and owner, and those of one run at its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection

from elastune.errors import JobError
from elastune.providers.ec2.broker import Broker
from elastune.providers.ec2.calls import JOB, OWNER, RUN, CloudError, Ec2Calls, Instance
from elastune.providers.protocol import Inventory, LiveInstance, UnseenError
from elastune.providers.ray_cluster import FinalCheck
from elastune.wording import format_duration, without_secrets

_NOT_SET_UP = ("NoCredentialsError", "PartialCredentialsError")
"""Errors of botocore that mean: AWS is not set up on this machine."""
_MOST_SKEW_S = 60.0
_LAST_ROUNDS = 60


class Ec2Inventory:
    def __init__(self, cloud: Ec2Calls) -> None:
        self._cloud = cloud

    def instances(self) -> tuple[LiveInstance, ...]:
        try:
            found = self._cloud.instances()
        except CloudError as error:
            raise _unseen(error) from error
        skew_s = getattr(self._cloud, "skew_s", 0.0)
        if abs(skew_s) > _MOST_SKEW_S:
            raise UnseenError(
                f"the clock of this machine is wrong by {format_duration(abs(skew_s))}, so it is not known "
                "which leases are over; set it right"
            )
        alive = (instance for instance in found if instance.is_alive)
        return tuple(
            _live_instance(each) for each in sorted(alive, key=lambda each: (each.launched, each.id))
        )

    def end(self, nodes: Collection[str]) -> None:
        try:
            self._cloud.terminate(nodes)
        except CloudError as error:
            raise _unseen(error) from error


def open_inventory(region: str | None) -> Inventory:
    """Raises `UnseenError` where boto3 or the configuration of AWS is missing."""
    from elastune.providers.ec2.api import Ec2Api  # noqa: PLC0415

    try:
        return Ec2Inventory(Ec2Api(region))
    except JobError as error:
        raise UnseenError(_one_line(error), is_absent=True) from error


def _live_instance(instance: Instance) -> LiveInstance:
    tags = instance.tags
    return LiveInstance(
        provider="ec2",
        node=instance.id,
        run=tags.get(RUN),
        job=tags.get(JOB),
        owner=tags.get(OWNER),
        kind=f"{instance.instance_type} {instance.market}",
        state=instance.phase.value,
        since=instance.launched,
        usd_per_hour=instance.usd_per_hour,
        expires=instance.expires,
    )


def _unseen(error: CloudError) -> UnseenError:
    context = type(error.__context__).__name__
    return UnseenError(_one_line(error), is_absent=context in _NOT_SET_UP)


def _one_line(error: Exception) -> str:
    return " ".join(without_secrets(str(error)).split()) or type(error).__name__


def end_and_check(broker: Broker) -> FinalCheck:
    """End what is left, and list until it is gone."""
    left: tuple[str, ...]
    try:
        left = wait_until_gone(broker, rounds=_LAST_ROUNDS, pause=time.sleep)
        how = "listing of EC2"
        if left and broker.broken is not None:
            how = f"EC2 does not end them: {broker.broken}; {how}"
    except CloudError as error:
        left, how = broker.fleet.alive(), f"EC2 could not be asked ({error}); listing failed"
    return FinalCheck.now(left, how)


def end_unchecked(broker: Broker) -> FinalCheck:
    """After an interrupt: one call to end everything, without a listing."""
    left: tuple[str, ...] = ()
    how = "EC2 could not be asked to end them"
    with contextlib.suppress(Exception):  # the interrupt is what gets raised
        left, how = broker.terminate_all(), "EC2 was asked to end them, result not checked,"
    return FinalCheck.now(left, how)


def wait_until_gone(broker: Broker, *, rounds: int, pause: Callable[[float], None]) -> tuple[str, ...]:
    """End all that is left and list until nothing of the run is shown; returns what the last listing shows.

    Raises `CloudError` if the last listing fails.
    """
    broker.wind_up()
    for _ in range(rounds):
        broker.work()
        with contextlib.suppress(CloudError):
            broker.look_afresh()
            if not broker.fleet.alive() and broker.is_settled:
                return ()
        pause(1.0)
    broker.look_afresh()
    return broker.fleet.alive()
