"""The end of a run on EC2: everything goes, and a fresh listing says whether it did."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime

from elastune.providers.ec2.broker import Broker
from elastune.providers.ec2.cloud import CloudError
from elastune.providers.rays import Farewell

_LAST_ROUNDS = 60


def take_leave(broker: Broker) -> Farewell:
    """End what is left, and look until it is gone."""
    left: tuple[str, ...]
    try:
        left = wait_until_gone(broker, rounds=_LAST_ROUNDS, pause=time.sleep)
        how = "listing of EC2"
        if left and broker.broken is not None:
            how = f"EC2 does not end them: {broker.broken}; {how}"
    except CloudError as error:
        left, how = broker.fleet.alive(), f"EC2 could not be asked ({error}); looked in vain"
    now = datetime.now(UTC)
    return Farewell(left=left, at=now.isoformat(timespec="seconds"), how=f"{how} at {now:%H:%M:%S} UTC")


def flee(broker: Broker) -> Farewell:
    """For those in a hurry: EC2 is told, and nobody looks."""
    told = "EC2 could not be told to end them"
    left: tuple[str, ...] = ()
    with contextlib.suppress(Exception):  # whatever it is, it must not hide why
        left = broker.flee()
        told = "EC2 was told to end them, and nobody looked whether it did"
    now = datetime.now(UTC)
    return Farewell(left=left, at=now.isoformat(timespec="seconds"), how=f"{told}, at {now:%H:%M:%S} UTC")


def wait_until_gone(broker: Broker, *, rounds: int, pause: Callable[[float], None]) -> tuple[str, ...]:
    """End all that is left and look until a fresh listing shows nothing of the run; returns what it shows.

    `CloudError`: nobody could look.
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
