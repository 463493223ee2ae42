"""The state of a run, changed only by the core, event by event; and `Step`, the handling of one event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from elastune.core.commands import AnyCommand, Best, CancelTimer, Ending, Note, SetTimer
from elastune.core.events import AnyEvent, Config
from elastune.core.hop_state import GangSpeeds, HopProgress, HopState, VisitPaces
from elastune.core.ledger import Ledger
from elastune.core.nodes import FreeSlots, Node, PoolNodes
from elastune.core.observed_speed import ObservedSpeed, SpeedObservation, TrainingSpell
from elastune.core.terms import RunTerms
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Wish, Wishes
from elastune.errors import InvariantError
from elastune.hopping.partitions import DataTerms
from elastune.model.ids import Gang, NodeId, TrialId
from elastune.model.limits import Limit
from elastune.model.metric import Mode
from elastune.model.profile import TrialSpeed
from elastune.model.speeds import ConfigSpeed, settings_of

# A gang that still trains counts as observed speed from so many iterations on.
_MIN_ITERATIONS = 3
# Trials of which the speed of others is learned.
_MOST_LEARNED = 200


@dataclass(slots=True)
class PoolState:
    """A pool with its free slots and the gangs on it."""

    pool: PoolNodes
    free_slots: FreeSlots
    occupants: dict[NodeId, dict[TrialId, None]] = field(default_factory=dict)
    """Trials on each node that is up."""
    gangs: int = 0
    staying: dict[TrialId, None] = field(default_factory=dict)
    """Trials whose gangs save and then wait."""
    queue: deque[TrialId] = field(default_factory=deque)
    """Trials that wait for slots, best first."""
    targets: dict[TrialId, Gang] | None = None
    """The slots that placement gives every gang; None while wishes are steady."""
    changed: bool = True
    """Something changed since the last placement."""
    hop_state: HopState = field(default_factory=HopState)


@dataclass(slots=True)
class RunChanges:
    """What requests of people and programs have changed, and what an extension after the end will need."""

    request_ids: dict[str, None] = field(default_factory=dict)
    """Requests that were applied."""
    queued: list[Config] = field(default_factory=list)
    """Given configurations, for the next new trials."""
    given: dict[TrialId, Config] = field(default_factory=dict)
    """The same of trials that are being drawn."""
    more_trials: int = 0
    """Added to those of the job."""
    cut: dict[TrialId, None] = field(default_factory=dict)
    """Trials that were in the race when the run ended."""
    missed: list[AnyEvent] = field(default_factory=list)
    """Events since the beginning of the shutdown, of which the policy does not know."""


class State:
    """Policies read it; only the core's own modules write."""

    startup_s = 0.0
    """What the command took before the run's clock showed 0; the deadline, as people give it, counts it."""
    furthest = 0
    """The most iterations that any trial has done, saved or not."""
    cause: str | None = None
    """Why the run failed."""
    awaited: frozenset[tuple[TrialId, int]] | None = None
    """Gangs that decide whether the run has failed: trials like theirs have all failed."""
    noted: frozenset[str] = frozenset()
    """Topics of notes that are made once."""

    def __init__(self, terms: RunTerms) -> None:
        self.terms = terms
        self.limits = terms.limits
        self.now_s = 0.0
        self.events = 0
        self.trials: dict[TrialId, Trial] = {}
        self.held: dict[TrialId, None] = {}
        """Trials that have a gang."""
        self.sampling: dict[TrialId, None] = {}
        """Trials requested and not yet drawn."""
        self.forks: dict[TrialId, tuple[TrialId, int]] = {}
        """Of those, forks: the parent and the iteration of its checkpoint."""
        self.changes = RunChanges()
        self.exhausted = False
        self.pools: dict[int, PoolState] = {}
        self.where: dict[NodeId, Node] = {}
        self.requests = 0
        self.refused: dict[int, int] = {}
        """Nodes refused so far, by request."""
        self.wishes = Wishes()
        self.wished: dict[TrialId, Wish] = {}
        self.timers: dict[str, float] = {}
        self.fresh: dict[str, None] = {}
        """Timers before which all rows are reported."""
        self.barriers: dict[tuple[int, int], None] = {}
        """Barriers ordered and not passed."""
        self.ledger = Ledger(terms.cluster)
        self.observed_speed = ObservedSpeed()
        self.hop_progress: dict[TrialId, HopProgress] = {}
        """Where models hop: trials in the middle of an iteration."""
        self.unreachable: str | None = None
        """Why no worker can have the data."""
        self.paces, self.gang_speeds = (VisitPaces(), VisitPaces()), GangSpeeds()
        """Of visits that train, and of visits that evaluate; of trials that have all workers."""
        self.best: Best | None = None
        self.shutdown: Ending | None = None
        """The run is shutting down: nothing new starts, what runs is saved."""
        self.suspended = False
        """Nothing starts until the run is resumed; what runs is saved, and all nodes are released."""
        self.called = False
        """The last call has come, but only saves and barriers are left: they may still end in time."""
        self.ended: Ending | None = None
        self.ended_s: float | None = None
        self.conceded: frozenset[Limit] = frozenset()
        self.money_call_s: float | None = None
        """When the present nodes use up the budget; None: never."""
        self.vetoed: dict[int, tuple[int, int]] = {}
        """The last refusal of nodes that was noted, by pool: wanted and allowed."""
        self.iterations = 0
        """All rows counted; those lost and trained again count twice."""

    @property
    def time_left_s(self) -> float | None:
        deadline = self.limits.deadline_s
        return None if deadline is None else deadline - self.terms.reserve_s - self.now_s

    @property
    def money_left_usd(self) -> float | None:
        """What nodes cost after the driver's death, until they end by themselves, is kept back."""
        budget = self.limits.budget_usd
        if budget is None:
            return None
        kept_usd = self.terms.cluster.shutdown_s * self.ledger.burn_usd_per_s
        return budget - self.ledger.spent_usd(self.now_s) - kept_usd

    def observation(self) -> SpeedObservation:
        """The speed observed so far. A gang that trains is, on average, in the middle of an iteration."""
        running = (
            TrainingSpell(t.number, len(t.gang), t.iteration - t.begun_at + 0.5, self.now_s - t.since_s)
            for t in map(self.trials.__getitem__, self.held)
            if t.activity is Activity.TRAINING and t.iteration - t.begun_at >= _MIN_ITERATIONS
        )
        return self.observed_speed.observation(self.terms.profile, running, self._guess)

    def _guess(self, trials: Sequence[TrialId]) -> Sequence[TrialSpeed]:
        return self.terms.profile.guess_speeds([self.trials[number].config for number in trials])

    def speeds(self, trials: Iterable[Trial], observed: SpeedObservation) -> tuple[TrialSpeed, ...]:
        """What is known of each trial: what its own iterations took, else what its configuration tells."""
        wanted, seen = list(trials), observed.speeds
        unseen = [trial for trial in wanted if trial.number not in seen]
        learned = [
            ConfigSpeed(settings_of(self.trials[number].config), speed.factor)
            for number, speed in list(seen.items())[-_MOST_LEARNED:]
        ]
        guesses = self.terms.profile.guess_speeds([trial.config for trial in unseen], learned)
        guessed = {trial.number: guess for trial, guess in zip(unseen, guesses, strict=True)}
        return tuple(seen.get(trial.number) or guessed[trial.number] for trial in wanted)

    def pool(self, number: int = 0) -> PoolNodes:
        return self.pool_state(number).pool

    def living(self) -> Iterator[Trial]:
        return (trial for trial in self.trials.values() if not trial.phase.is_over)

    def better(self, value: float, than: float | None) -> bool:
        return than is None or self.terms.mode.better(value, than)

    def rank(self, trials: list[Trial]) -> list[Trial]:
        """Best last value first; the older trial first among equals."""
        sign = -1.0 if self.terms.mode is Mode.MAX else 1.0
        return sorted(trials, key=lambda t: (sign * t.values[-1] if t.values else float("inf"), t.number))

    @property
    def data(self) -> DataTerms:
        """The partitioned data of a job whose models hop."""
        if self.terms.data is None:
            raise InvariantError("the job has no partitioned data; expected them where models hop")
        return self.terms.data

    def pool_state(self, pool: int) -> PoolState:
        if pool not in self.pools:
            self.pools[pool] = PoolState(PoolNodes(pool), FreeSlots(self.terms.cluster.slots_per_node))
            self.ledger.open_stage(pool, 0, self.now_s)
        return self.pools[pool]

    def trial(self, number: TrialId) -> Trial:
        try:
            return self.trials[number]
        except KeyError:
            raise InvariantError(f"there is no trial {number}") from None

    @property
    def nodes_committed(self) -> int:
        """Nodes alive or requested, in all pools."""
        return len(self.where) + self.nodes_outstanding

    @property
    def nodes_outstanding(self) -> int:
        """Nodes requested, in all pools."""
        return sum(pool_state.pool.outstanding for pool_state in self.pools.values())


class Step:
    """One event being handled: the state that it changes and the commands that it causes."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.commands: list[AnyCommand] = []
        self.failed: Trial | None = None
        """The trial that has failed through this event."""

    def emit(self, command: AnyCommand) -> None:
        self.commands.append(command)

    def note(self, topic: str, text: str) -> None:
        self.commands.append(Note(topic=topic, text=text))

    def set_timer(self, timer: str, at_s: float, *, fresh: bool = False) -> None:
        state, at_s = self.state, max(at_s, self.state.now_s)
        if state.timers.get(timer) != at_s:
            state.timers[timer] = at_s
            if fresh:
                state.fresh[timer] = None
            self.emit(SetTimer(timer=timer, at_s=at_s, fresh=fresh))

    def cancel_timer(self, timer: str) -> None:
        self.state.fresh.pop(timer, None)
        if self.state.timers.pop(timer, None) is not None:
            self.emit(CancelTimer(timer=timer))
