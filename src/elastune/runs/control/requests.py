"""What another process may ask of a run, as values: they travel as JSON and become events of the core.

A limit is given for the whole run (`30m`, from its command on) or as an addition (`+10m`); the driver
resolves an addition when it applies the request, so that two of them add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from elastune.core.events import (
    AnyRequest,
    Config,
    ConfigAdded,
    RestAsked,
    RunExtended,
    StopAsked,
    TrialStopAsked,
)
from elastune.core.state import State
from elastune.errors import JobError
from elastune.model.ids import TrialId
from elastune.model.quantities import ExpectedError, positive_duration, positive_money, whole
from elastune.wording import format_duration, format_usd, plural

_MOST = 1_000_000


class RefusedRequestError(JobError):
    """The run cannot do what was asked; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """A new limit, or what is added to the present one."""

    value: float
    is_more: bool = False

    def on(self, present: float | None, name: str) -> float:
        if not self.is_more:
            return self.value
        if present is None:
            raise RefusedRequestError(f"the run has no {name} to add to; expected {name} without +")
        return present + self.value

    def __str__(self) -> str:
        return f"{'+' if self.is_more else ''}{self.value!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """New limits; None: the limit stays."""

    deadline: LimitChange | None = None
    budget: LimitChange | None = None
    trials: LimitChange | None = None
    max_nodes: LimitChange | None = None

    @classmethod
    def of(
        cls,
        *,
        deadline: object = None,
        budget: object = None,
        trials: object = None,
        max_nodes: object = None,
    ) -> Self:
        """In the notation of a job; a text that begins with + is added to the present limit."""
        return cls(
            deadline=_change("deadline", deadline, positive_duration),
            budget=_change("budget", budget, positive_money),
            trials=_change("trials", trials, _count),
            max_nodes=_change("max_nodes", max_nodes, _count),
        )

    @property
    def is_empty(self) -> bool:
        return self == Extension()

    def event(self, state: State, declared: int | None, request_id: str, at_s: float) -> RunExtended:
        """`declared`: the number of trials of the job, if it has one. Raises `RefusedRequestError`."""
        more = 0
        if self.trials is not None:
            total = None if declared is None else declared + state.changes.more_trials
            more = int(self.trials.on(total, "number of trials")) - (total or 0)
            if total is None:
                raise RefusedRequestError(
                    "the search has no number of trials: new ones start until a limit ends it"
                )
            if more <= 0:
                raise RefusedRequestError(
                    f"the run has {plural(total, 'trial')}; expected more, or +N to add N"
                )
        nodes = _on(self.max_nodes, state.terms.cluster.max_nodes, "max_nodes")
        return RunExtended(
            at_s=at_s,
            request_id=request_id,
            deadline_s=self._deadline_s(state),
            budget_usd=_on(self.budget, state.terms.limits.budget_usd, "budget"),
            max_nodes=None if nodes is None else int(nodes),
            more_trials=more,
        )

    def _deadline_s(self, state: State) -> float | None:
        """On the run's clock, which shows 0 after the start-up."""
        present = state.limits.deadline_s
        present = state.terms.limits.deadline_s if present is None else present
        given = _on(self.deadline, present, "deadline")
        is_whole = self.deadline is not None and not self.deadline.is_more
        return given - state.startup_s if given is not None and is_whole else given


def _on(change: LimitChange | None, present: float | None, name: str) -> float | None:
    return None if change is None else change.on(present, name)


def _count(value: object) -> float:
    return whole(value, least=1, most=_MOST)


def _change(name: str, written: object, parse: Callable[[object], float]) -> LimitChange | None:
    if written is None:
        return None
    text = written.strip() if isinstance(written, str) else ""
    try:
        return LimitChange(value=parse(text[1:] if text[:1] == "+" else written), is_more=text[:1] == "+")
    except ExpectedError as error:
        example = "; begin it with + to add to the present one"
        raise JobError(f"{name} is {written!r}; expected {error}{example}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRun:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRun:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTrial:
    trial: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddConfig:
    config: Config


RunRequest = StopRun | SuspendRun | StopTrial | AddConfig | Extension
_KINDS: dict[str, type[Any]] = {
    "stop": StopRun,
    "suspend": SuspendRun,
    "stop-trial": StopTrial,
    "add": AddConfig,
    "extend": Extension,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_event(
    request: RunRequest, state: State, *, declared: int | None, request_id: str, at_s: float
) -> AnyRequest:
    """The event by which the core applies the request. Raises `RefusedRequestError`."""
    match request:
        case StopRun(reason=reason):
            return StopAsked(at_s=at_s, reason=reason, request_id=request_id)
        case SuspendRun(reason=reason):
            return RestAsked(at_s=at_s, reason=reason, request_id=request_id)
        case StopTrial(trial=trial, reason=reason):
            return TrialStopAsked(at_s=at_s, request_id=request_id, trial=TrialId(trial), reason=reason)
        case AddConfig(config=config):
            return ConfigAdded(at_s=at_s, request_id=request_id, config=config)
        case Extension():
            return request.event(state, declared, request_id, at_s)


def describe(event: AnyRequest, startup_s: float = 0.0) -> str:
    """What the run does after it has accepted the request. `startup_s`: of the run."""
    match event:
        case StopAsked():
            return "it saves, releases all nodes and ends"
        case RestAsked():
            return "it saves, releases all nodes and is suspended"
        case TrialStopAsked(trial=trial):
            return f"trial {trial} is stopped"
        case ConfigAdded():
            return "the next new trial has this configuration"
        case RunExtended():
            return f"from now on: {', '.join(_limits_of(event, startup_s)) or 'the limits as they were'}"


def _limits_of(event: RunExtended, startup_s: float) -> list[str]:
    parts = []
    if event.deadline_s is not None:
        parts.append(f"deadline {format_duration(event.deadline_s + startup_s)}")
    if event.budget_usd is not None:
        parts.append(f"budget {format_usd(event.budget_usd)}")
    if event.max_nodes is not None:
        parts.append(f"at most {plural(event.max_nodes, 'node')}")
    if event.more_trials:
        parts.append(plural(event.more_trials, "more trial"))
    return parts


def encode_request(request: RunRequest) -> dict[str, object]:
    """Plain data for `decode_request`."""
    data = asdict(request)
    if isinstance(request, Extension):
        given = {field.name: getattr(request, field.name) for field in fields(request)}
        data = {name: str(change) for name, change in given.items() if change is not None}
    return {"kind": _NAMES[type(request)], **data}


def decode_request(data: object) -> RunRequest:
    """Raises `RefusedRequestError` if `encode_request` cannot have made it."""
    if not isinstance(data, Mapping) or data.get("kind") not in _KINDS:
        raise RefusedRequestError(f"not a request: expected a kind, one of {', '.join(_KINDS)}")
    kind = _KINDS[data["kind"]]
    values = {str(name): value for name, value in data.items() if name != "kind"}
    names = {field.name for field in fields(kind)}
    try:
        if kind is Extension:
            return Extension.of(**values)
        request: RunRequest = kind(**values)
    except (TypeError, JobError) as error:
        raise RefusedRequestError(
            f"not a request: {error}; expected the keys {', '.join(sorted(names))}"
        ) from None
    _check(request)
    return request


def _check(request: RunRequest) -> None:
    match request:
        case StopRun(reason=reason) | SuspendRun(reason=reason) | StopTrial(reason=reason) if not isinstance(
            reason, str
        ):
            raise RefusedRequestError("not a request: reason is not a text")
        case StopTrial(trial=trial) if not isinstance(trial, int) or isinstance(trial, bool):
            raise RefusedRequestError(f"not a request: trial is {trial!r}; expected a number")
        case AddConfig(config=config) if not isinstance(config, Mapping):
            raise RefusedRequestError(f"not a request: config is {config!r}; expected values by name")
