"""Until when instances may live unwatched: all of a run have the same expiry, which a living driver puts off.

No expiry lies beyond what the budget pays for. So it may also have to be cut short: before more instances are
launched, those that are there get the earlier expiry that follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from elastune.providers.ec2.cloud import Cloud, CloudError, RefusedError
from elastune.providers.ec2.fleet import Clocks, Fleet

LEASE_S = 600.0
"""So long instances live without a driver, if the budget lasts."""
_RENEW_BELOW_S = LEASE_S * 2 / 3
_LOOK_S = 50.0
_RETRY_S = 5.0
_CLOSE_S = 1.0


class Leases:
    """`until_s` tells until when, by the run's clock, the budget lasts; None: nobody knows yet."""

    def __init__(
        self, cloud: Cloud, fleet: Fleet, clocks: Clocks, until_s: Callable[[], float | None]
    ) -> None:
        self._cloud = cloud
        self._fleet = fleet
        self._clocks = clocks
        self._until_s = until_s
        self.due = -math.inf
        self.trouble: str | None = None
        self.broken: str | None = None
        """Why no lease can ever be put off."""

    def expiry(self) -> float | None:
        """For all, from now on, by the wall clock."""
        until_s = self._until_s()
        return None if until_s is None else self._clocks.wall() + min(LEASE_S, until_s - self._clocks.run())

    def renew(self) -> bool:
        """Put the expiry off where it is due, cut it short where it must be.

        Returns whether no instance may live longer than it should: else nothing must be launched.
        """
        now, expiry, leased = self._clocks.wall(), self.expiry(), self._fleet.leased()
        self.due, self.trouble = now + _LOOK_S, None
        if expiry is None or not leased:
            return True
        soonest = min(self._fleet[id_].expires for id_ in leased)
        latest = max(self._fleet[id_].expires_most for id_ in leased)
        if self._fleet.to_end():  # they may go on costing money: nobody gets more
            expiry = min(expiry, soonest)
        is_long = latest > expiry + _CLOSE_S
        is_short = soonest < now + _RENEW_BELOW_S and expiry > soonest + _CLOSE_S
        if not (is_long or is_short):
            return True
        try:
            self._cloud.put_off(leased, expiry)
        except RefusedError as error:
            self.broken = str(error)
            return False
        except CloudError as error:
            self.due, self.trouble = now + _RETRY_S, str(error)
            self._fleet.lease(leased, expiry, is_sure=False)
            return not is_long
        self._fleet.lease(leased, expiry, is_sure=True)
        return True
