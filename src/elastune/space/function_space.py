"""A space that is a function: `def suggest(trial): lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)`.

As in Optuna, the function asks for one hyperparameter after the other and may let the answers decide what it
asks for next. It may return constants by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from elastune.errors import JobError
from elastune.model.configuration import Configuration, FlatConfiguration, Value, scalar
from elastune.space.domain_parsing import parse_domain, parse_value
from elastune.space.space import Distribution, Domain, Draw, Path, SpaceError
from elastune.wording import seen

MOST_SUGGESTED = 1_000


class SuggestingTrial:
    """The argument of the function: the part of Optuna's `Trial` that suggests values."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._domains: dict[str, Domain] = {}
        self._values: dict[str, Value] = {}

    @property
    def params(self) -> dict[str, Value]:
        """The values suggested so far."""
        return dict(self._values)

    @property
    def domains(self) -> dict[str, Domain]:
        return dict(self._domains)

    @property
    def distributions(self) -> dict[str, Distribution]:
        return {name: domain.distribution for name, domain in self._domains.items()}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        steps = {} if step is None else {"step": step}
        value = self._suggest(name, {"float": [low, high], "log": log, **steps})
        assert isinstance(value, float)
        return value

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        value = self._suggest(name, {"int": [low, high], "step": step, "log": log})
        assert isinstance(value, int)
        return value

    def suggest_categorical(self, name: str, choices: Sequence[Value]) -> Value:
        return self._suggest(name, {"choice": list(choices)})

    def _suggest(self, name: str, written: Mapping[str, object]) -> Value:
        return self.suggest(name, parse_domain(name, written))

    def suggest(self, name: str, domain: Domain) -> Value:
        if name in self._values:
            if domain.distribution != self._domains[name].distribution:
                raise SpaceError((name,), "is suggested twice, from different ranges; expected one range")
            return self._values[name]
        if len(self._values) == MOST_SUGGESTED:
            raise SpaceError((name,), f"is one too many; a function suggests {MOST_SUGGESTED:,} at most")
        self._domains[name] = domain
        self._values[name] = domain.value(self._draw(name, domain.distribution))
        return self._values[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpace:
    """`name` is for error messages. The function must suggest the same for the same answers."""

    function: Callable[..., object]
    name: str

    @property
    def sampler(self) -> object:
        """The function's own, see `study_sampler`; None: it has none."""
        return getattr(self.function, "sampler", None)

    def path(self, name: str) -> Path:
        return (name,)

    def flat(self, configuration: Configuration) -> FlatConfiguration:
        """The drawn values of a configuration."""
        return {name: scalar(value) for name, value in configuration.items()}

    def configure(self, draw: Draw) -> Configuration:
        """A configuration, in the order of the suggestions, whose values `draw` gives."""
        trial = SuggestingTrial(draw)
        try:
            returned = self.function(trial)
        except JobError:
            raise
        except Exception as error:
            raise JobError(
                f"space: {self.name} failed with {type(error).__name__}: {error}; expected a function of a "
                "trial that calls its suggest_float, suggest_int and suggest_categorical"
            ) from error
        return trial.params | self._constants(returned, trial.params)

    def _constants(self, returned: object, values: Configuration) -> dict[str, Value]:
        if returned is None:
            return {}
        if not isinstance(returned, Mapping):
            raise JobError(
                f"space: {self.name} returned {seen(returned)}; expected nothing, or constants by name"
            )
        # Functions often return the suggested values, too.
        constants = {str(name): value for name, value in returned.items() if str(name) not in values}
        return {name: parse_value((name,), value) for name, value in constants.items()}
