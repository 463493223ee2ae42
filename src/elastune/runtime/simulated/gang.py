"""A gang of a simulated run: when its iterations end, their metrics, and which checkpoints it writes.

A lease is computed to its end when it is given. Later orders (another lease, a revocation) only move the
stop; what was computed beyond it is dropped.
"""

from __future__ import annotations

import bisect
import contextlib
import math
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elastune.core.commands import Train
from elastune.core.events import LeaseEnd, Row
from elastune.curves.source import Curve
from elastune.model.checkpoint_rule import CheckpointRule, Saves
from elastune.runtime.simulated.latency import GangPace

CRASHED = "an injected fault"
KILLED = "an injected kill"
_ROUNDING = 1e-9
# Leases may reach far beyond what there is time for.
_PIECE = 256


@dataclass(frozen=True, slots=True)
class GangStop:
    """Where the gang stops by itself: after an iteration, by its lease or (no reason) with an error."""

    iteration: int
    at_s: float
    reason: LeaseEnd | None
    error: str = ""


class SimulatedGang:
    """Iterations from `first` on; `begins[i]` and `ends[i]` are those of iteration `first + i`.

    Saves run in the background and take no training time.
    """

    def __init__(  # noqa: PLR0913  what it trains, and its faults
        self,
        lease: Train,
        pace: GangPace,
        curve: Curve,
        rule: CheckpointRule,
        *,
        metric: str,
        crash_after: int | None = None,
        killed_after: int | None = None,
        calls: bool = False,
    ) -> None:
        self.lease = lease
        self.pace = pace
        self.curve = curve
        self.rule = rule
        self.metric = metric
        self.crash_after = crash_after
        """The iteration after which the user's code crashes, as an injected fault."""
        self.killed_after = killed_after
        """The same for an injected kill of a worker."""
        self.calls = calls
        """A lease is one call from the beginning, and only its last iteration is reported."""
        self.reports: set[int] = set()
        """The last iterations of calls."""
        self.training = False
        self.version = 0
        """Counts the plans of this gang: an alarm for an older one is ignored."""
        self.stop_at = GangStop(lease.after_iteration, 0.0, None)
        self.first = lease.after_iteration + 1
        self.reported = lease.after_iteration
        self.begins: list[float] = []
        self.ends: list[float] = []
        self.expected: list[float] = []
        self.metrics: list[Mapping[str, float]] = []
        self.bad: int | None = None
        """The first iteration whose metric is missing or not finite."""
        self.error = ""
        self.fails_in: int | None = None
        """The iteration in which the user's code raises."""
        self.clock_s = 0.0
        self.saves: deque[tuple[float, int, bool]] = deque()
        """Background saves in order: (durable at, iteration, reported at once)."""
        self.past = Saves(best=lease.keep_above, regular_s=0.0)
        self.marks = [(0, self.past)]
        """The past saves, by the iteration after which they changed."""

    def train(self, now_s: float) -> None:
        """Begin to train, or continue after a wait."""
        self.training = True
        self.clock_s = now_s
        if not self.ends:
            self.past = self.past._replace(regular_s=now_s)
            self.marks = [(0, self.past)]

    def renew(self, lease: Train, now_s: float) -> None:
        """Another lease. If another trial has found a better model, worse ones are not saved from now on."""
        self.lease = lease
        done = self.done(now_s)
        past = next(past for iteration, past in reversed(self.marks) if iteration <= done)
        raised = self.rule.raise_best(past, lease.keep_above)
        if raised is past:
            return
        self._forget_saves_beyond(done)
        self.past = raised
        self.marks.append((done, raised))
        for index in range(done + 1 - self.first, len(self.ends)):
            self._consider_save(self.first + index, self.metrics[index], self.ends[index])

    def done(self, now_s: float) -> int:
        """Iterations that have ended."""
        return self.first - 1 + bisect.bisect_right(self.ends, now_s)

    def plan(self, now_s: float) -> GangStop:
        """Compute the lease to its end."""
        lease = self.lease
        while more := self._extend(lease.until_iteration):
            if lease.until_s is not None and self.clock_s > lease.until_s:
                break
        last = min(self.first - 1 + len(self.ends), lease.until_iteration)
        reason: LeaseEnd | None = LeaseEnd.REACHED
        if more:
            reason = LeaseEnd.TIME
        elif last < lease.until_iteration:
            reason = LeaseEnd.RETURNED if self.fails_in is None else None
        if lease.until_s is not None:
            in_time = self._last_in_time(now_s, last, lease.until_s)
            fails_late = reason is None and self.clock_s + self.pace.expected_s > lease.until_s
            if in_time < last or fails_late:
                last, reason = in_time, LeaseEnd.TIME
        last = max(last, self._under_way(now_s))
        return self._stop(last, now_s, reason)

    def plan_revocation(self, now_s: float) -> GangStop:
        """After the iteration that is being trained."""
        return self._stop(self._under_way(now_s), now_s, LeaseEnd.REVOKED)

    def halt(self) -> None:
        """The stop is reached. What was computed beyond it did not happen."""
        self.training = False
        keep = self.stop_at.iteration - self.first + 1
        for track in (self.begins, self.ends, self.expected, self.metrics):
            del track[keep:]
        last = self.stop_at.iteration
        self._forget_saves_beyond(last)
        self.reports = {iteration for iteration in self.reports if iteration <= last}
        if self.fails_in is not None and self.fails_in > last + 1:
            self.fails_in, self.error = None, ""
        if self.bad is not None and self.bad > last:
            self.bad = None

    def _forget_saves_beyond(self, last: int) -> None:
        while self.saves and self.saves[-1][1] > last:
            self.saves.pop()
        while len(self.marks) > 1 and self.marks[-1][0] > last:
            self.marks.pop()
        self.past = self.marks[-1][1]

    def next_report_s(self) -> float | None:
        """When to report before the stop: a regular save, or one that reaches the target, is durable, or a
        metric is missing."""
        if not self.saves and self.bad is None:
            return None
        stop, next_s = self.stop_at, None
        for durable_s, iteration, at_once in self.saves:
            if at_once:
                next_s = durable_s if iteration <= stop.iteration and durable_s < stop.at_s else None
                break
        if self.bad is not None and self.reported < self.bad <= stop.iteration:
            bad_s = self.ends[self.bad - self.first]
            if bad_s < stop.at_s and (next_s is None or bad_s < next_s):
                next_s = bad_s
        return next_s

    def report(self, now_s: float, upto: int) -> tuple[tuple[Row, ...], tuple[int, ...]]:
        """Rows not reported yet, and the checkpoints that became durable."""
        first, ends, metrics, saves = self.first, self.ends, self.metrics, self.saves
        new: Sequence[int] = range(self.reported + 1, upto + 1)
        if self.calls:
            new = [iteration for iteration in new if iteration in self.reports]
        rows = tuple([Row(i, ends[i - first], metrics[i - first]) for i in new])
        self.reported = max(self.reported, upto)
        durable = []
        while saves and saves[0][0] <= now_s and saves[0][1] <= upto:
            durable.append(saves.popleft()[1])
        return rows, tuple(durable)

    def _stop(self, last: int, now_s: float, reason: LeaseEnd | None) -> GangStop:
        at_s = max(now_s, self.ends[last - self.first]) if last >= self.first else now_s
        return GangStop(last, at_s, reason, self.error if reason is None else "")

    def _under_way(self, now_s: float) -> int:
        """The iteration that is being trained, else the last one that ended."""
        done = self.done(now_s)
        index = done - self.first + 1
        if index >= len(self.ends) or self.begins[index] >= now_s:
            return done
        return min(end for end in self.reports if end > done) if self.calls else done + 1

    def _last_in_time(self, now_s: float, last: int, until_s: float) -> int:
        """The last iteration that is begun because it is expected to end in time."""
        for iteration in range(self.done(now_s) + 1, last + 1):
            index = iteration - self.first
            if self.begins[index] + self.expected[index] > until_s * (1 + _ROUNDING):
                return iteration - 1
        return last

    def _extend(self, until: int) -> bool:
        """Compute the next piece of the iterations up to `until`; True: there is more to compute."""
        have = self.first - 1 + len(self.ends)
        if until <= have or self.fails_in is not None:
            return False
        if self.calls:
            self._extend_by_call(have, until if self.curve.length is None else min(until, self.curve.length))
            return False
        goal, until = until, min(until, have + _PIECE)
        rows = self._rows(have + 1, until)
        measured = self.curve.seconds(have + 1, have + len(rows)) if rows else None
        if measured is None:
            seconds, expected = self.pace.iterations_s(len(rows)), [self.pace.expected_s] * len(rows)
        else:
            seconds = expected = [self.pace.factor * each for each in measured]
        clock_s, begins, ends = self.clock_s, self.begins, self.ends
        for iteration, row, duration in zip(range(have + 1, until + 1), rows, seconds, strict=False):
            begins.append(clock_s)
            clock_s += duration
            ends.append(clock_s)
            self._consider_save(iteration, row, clock_s)
        self.clock_s = clock_s
        self.metrics.extend(rows)
        self.expected.extend(expected)
        return until < goal and len(rows) == until - have

    def _extend_by_call(self, have: int, last: int) -> None:
        """Compute a call from the beginning to `last`."""
        rows = self._rows(last, last) if last > have else ()
        if not rows:
            return
        new = last - have
        begins_s, expected_s = self.clock_s, last * self.pace.expected_s
        self.clock_s += self.seconds_of(1, last)
        self.begins += [begins_s] * new
        self.ends += [self.clock_s] * new
        self.expected += [expected_s] * new
        self.metrics += [rows[0]] * new
        self.reports.add(last)
        self._consider_save(last, rows[0], self.clock_s)

    def seconds_of(self, first: int, last: int) -> float:
        """What these iterations take on this gang."""
        if last < first:
            return 0.0
        measured = self.curve.seconds(first, last)
        if measured is None:
            return sum(self.pace.iterations_s(last - first + 1))
        return self.pace.factor * sum(measured)

    def _rows(self, first: int, last: int) -> Sequence[Mapping[str, float]]:
        for after, error in ((self.crash_after, CRASHED), (self.killed_after, KILLED)):
            if after is not None and after < last:
                self.error, self.fails_in = error, max(first, after + 1)
                last = self.fails_in - 1
        if last < first:
            return []
        with contextlib.suppress(Exception, SystemExit):  # the user's code may raise anything
            return self.curve.rows(first, last)
        return self._rows_until_error(first, last)

    def _rows_until_error(self, first: int, last: int) -> list[Mapping[str, float]]:
        """One by one, to find the iteration that raises."""
        rows: list[Mapping[str, float]] = []
        for iteration in range(first, last + 1):
            try:
                rows.extend(self.curve.rows(iteration, iteration))
            except (Exception, SystemExit):  # noqa: BLE001
                self.error, self.fails_in = traceback.format_exc(limit=-3).strip(), iteration
                break
        return rows

    def _consider_save(self, iteration: int, row: Mapping[str, float], at_s: float) -> None:
        rule, past, value = self.rule, self.past, row.get(self.metric)
        if value is None or not math.isfinite(value):
            self.bad = self.bad or iteration
            return
        if not rule.is_due(past, value, at_s):
            return
        began_s = max(at_s, past.began_s + rule.save_s)
        self.past = rule.begin_and_end(past, value, began_s, rule.save_s)
        at_once = self.past.regular_s == began_s or rule.is_awaited(value)
        self.saves.append((began_s + rule.save_s, iteration, at_once))
        self.marks.append((iteration, self.past))
