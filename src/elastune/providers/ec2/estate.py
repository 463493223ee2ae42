"""All instances of Elastune in one region, of every run and owner."""

from __future__ import annotations

from collections.abc import Collection

from elastune.errors import JobError
from elastune.providers.ec2.cloud import JOB, OWNER, RUN, Cloud, CloudError, Instance
from elastune.providers.estate import Estate, Sighting, UnseenError
from elastune.units import format_duration
from elastune.wording import without_secrets

# Errors of botocore that mean: nobody has set up AWS on this machine.
_NOT_SET_UP = ("NoCredentialsError", "PartialCredentialsError")


_MOST_SKEW_S = 60.0


class Ec2Estate:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def sightings(self) -> tuple[Sighting, ...]:
        try:
            found = self._cloud.instances()
        except CloudError as error:
            raise _unseen(error) from error
        skew_s = getattr(self._cloud, "skew_s", 0.0)
        if abs(skew_s) > _MOST_SKEW_S:
            raise UnseenError(
                f"the clock of this machine is wrong by {format_duration(abs(skew_s))}, so it cannot be told "
                "which leases are over; set it right"
            )
        alive = (instance for instance in found if instance.is_alive)
        return tuple(_sighting(each) for each in sorted(alive, key=lambda each: (each.launched, each.id)))

    def end(self, nodes: Collection[str]) -> None:
        try:
            self._cloud.terminate(nodes)
        except CloudError as error:
            raise _unseen(error) from error


def open_estate(region: str | None) -> Estate:
    """Through boto3. Raises `UnseenError` where that, or the configuration of AWS, is missing."""
    from elastune.providers.ec2.api import Ec2Api  # noqa: PLC0415

    try:
        return Ec2Estate(Ec2Api(region))
    except JobError as error:
        raise UnseenError(_one_line(error), is_absent=True) from error


def _sighting(instance: Instance) -> Sighting:
    tags = instance.tags
    return Sighting(
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
