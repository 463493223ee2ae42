"""From hyperparameters to speed: what a few measured configurations say about all the others.

The logarithm of a configuration's time per iteration is linear in its encoded hyperparameters, because width,
depth and batch size act multiplicatively. Which hyperparameters matter and how strongly is not decided but
averaged: every model (a set of hyperparameters and a prior strength) has a closed-form evidence under the
conjugate normal-inverse-gamma prior (Bishop 2006, 3.5; Hoeting et al. 1999 for the averaging). The mean and
the covariance of the mixture are those of one linear model, so a prediction costs the same however many
models were averaged. Where leave-one-out errors exceed what the mixture claims, its variance is raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from elastune.errors import InvariantError
from elastune.model.configuration import Configuration, Scalar, flattened
from elastune.model.encoded import Array, Encoding

Settings = tuple[tuple[str, Scalar], ...]

# Prior variances of an effect, in residual variances: from lost in the noise to a hundred times above it.
_STRENGTHS = np.array([1.0, 10.0, 100.0, 1_000.0, 10_000.0])
# The residual before anything was seen: as much as two configurations say, of about 6 %.
_PRIOR_SHAPE = 1.0
_PRIOR_SCALE = 0.008
# Up to this many hyperparameters that matter together, the best sets are grown one by one; then all at once.
_MOST_TOGETHER = 4
_BEAM = 3
_NEGLIGIBLE = 1e-4
# Beyond these a guess says nothing, and the mean of the log-normal would be made by its tail alone.
_LEAST_CAP = 2.0
_MOST_LOG = math.log(1_000.0)


def settings_of(config: Configuration) -> Settings:
    """The configuration as a hashable value, by name."""
    return tuple(sorted(flattened(config).items(), key=lambda item: item[0]))


@dataclass(frozen=True, slots=True)
class ConfigSpeed:
    """One measured configuration: its time per iteration relative to the profile's mean, at equal slots."""

    config: Settings
    factor: float
    weight: float = 1.0
    """The number of iterations seen."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor > 0.0):
            raise InvariantError(f"the factor of {dict(self.config)} is {self.factor}; expected more than 0")
        if not (math.isfinite(self.weight) and self.weight > 0.0):
            raise InvariantError(f"the weight of {dict(self.config)} is {self.weight}; expected more than 0")

    def to_dict(self) -> dict[str, object]:
        """As written in a job and in a file of measurements."""
        return {"config": dict(self.config), "factor": self.factor, "weight": self.weight}


@dataclass(frozen=True, slots=True)
class SpeedGuess:
    """`factor` is the mean of a log-normal, `spread` its coefficient of variation: what is unknown."""

    factor: float
    spread: float


@dataclass(frozen=True, slots=True)
class Influence:
    """What one hyperparameter does to the speed."""

    name: str
    probability: float
    """That it matters at all."""
    ratio: float
    """The slowest of the measured values relative to the fastest."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """What the evidence of a model needs of the data: weighted, centred sums of products."""

    gram: Array
    products: Array
    total: float
    shape: float

    @classmethod
    def of(cls, rows: Array, values: Array) -> _Sums:
        shape = _PRIOR_SHAPE + (len(values) - 1) / 2.0  # one degree of freedom goes to the intercept
        return cls(rows.T @ rows, rows.T @ values, float(values @ values), shape)


@dataclass(frozen=True, slots=True)
class _Models:
    """A stack of models, one per set of hyperparameters (`masks`) and prior strength."""

    sets: tuple[frozenset[int], ...]
    masks: Array
    eigenvectors: Array
    shrinkage: Array
    rotated: Array
    scale: Array
    log_evidence: Array

    @classmethod
    def of(cls, sets: Sequence[frozenset[int]], columns: Sequence[slice], sums: _Sums) -> _Models:
        masks = np.zeros((len(sets), len(sums.products)))
        for at, chosen in enumerate(sets):
            for each in chosen:
                masks[at, columns[each]] = 1.0
        values, vectors = np.linalg.eigh(sums.gram * masks[:, :, None] * masks[:, None, :])
        values = np.maximum(values, 0.0)[:, None, :]
        rotated = np.einsum("mij,mi->mj", vectors, masks * sums.products)
        strengths = _STRENGTHS[None, :, None]
        shrinkage = strengths / (1.0 + strengths * values)
        explained = np.einsum("mkj,mj->mk", shrinkage, rotated**2)
        scale = _PRIOR_SCALE + np.maximum(0.0, sums.total - explained) / 2.0
        log_evidence = -0.5 * np.log1p(strengths * values).sum(axis=2) - sums.shape * np.log(scale)
        return cls(tuple(sets), masks, vectors, shrinkage, rotated, scale, log_evidence)

    def best(self, count: int) -> list[frozenset[int]]:
        order = np.argsort(-self.log_evidence.max(axis=1), kind="stable")
        return [self.sets[at] for at in order[:count]]


def _grow(columns: Sequence[slice], varying: Sequence[int], sums: _Sums) -> list[_Models]:
    """Models of none, one, two, ... hyperparameters, each size grown from the best of the one before."""
    stacks = [_Models.of([frozenset()], columns, sums)]
    for _ in range(min(_MOST_TOGETHER, len(varying))):
        best = stacks[-1].best(_BEAM)
        grown = {chosen | {each} for chosen in best for each in varying if each not in chosen}
        stacks.append(_Models.of(sorted(grown, key=sorted), columns, sums))
    if len(varying) > _MOST_TOGETHER:
        stacks.append(_Models.of([frozenset(varying)], columns, sums))
    return stacks


@dataclass(frozen=True, slots=True)
class _Member:
    """One model with its share of the average. The covariance of its effects is `variance` times `shape`."""

    share: float
    chosen: frozenset[int]
    effects: Array
    shape: Array
    variance: float


def _members(stacks: Sequence[_Models], count: int, sums: _Sums) -> list[_Member]:
    """The models that are not negligible. A priori every number of hyperparameters is equally likely."""
    scores = [
        models.log_evidence
        - np.array([math.log(math.comb(count, len(chosen))) for chosen in models.sets])[:, None]
        for models in stacks
    ]
    best = max(float(score.max()) for score in scores)
    kept: list[_Member] = []
    for models, score in zip(stacks, scores, strict=True):
        for at, strength in np.argwhere(score > best + math.log(_NEGLIGIBLE)):
            vectors, shrinkage = models.eigenvectors[at], models.shrinkage[at, strength]
            mask = models.masks[at]
            kept.append(
                _Member(
                    share=math.exp(float(score[at, strength]) - best),
                    chosen=models.sets[at],
                    effects=vectors @ (shrinkage * models.rotated[at]),
                    shape=(vectors * shrinkage) @ vectors.T * np.outer(mask, mask),
                    variance=float(models.scale[at, strength]) / (sums.shape - 1.0),
                )
            )
    total = math.fsum(member.share for member in kept)
    return [replace(member, share=member.share / total) for member in kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mixture:
    """All models averaged: one mean and one covariance of the effects, and what is left unexplained."""

    intercept: float
    centre: Array
    effects: Array
    covariance: Array
    unexplained: float
    matters: Array
    """Per hyperparameter the probability that it has an effect."""
    unseen: Array
    """Per hyperparameter, and last for an unknown one, the variance of the effect of an unmeasured value."""


def _mix(
    members: Sequence[_Member], rows: Array, values: Array, weights: Array, encoding: Encoding
) -> _Mixture:
    centre, intercept = weights @ rows / weights.sum(), float(weights @ values / weights.sum())
    effects = sum(member.share * member.effects for member in members) + np.zeros(rows.shape[1])
    covariance = np.zeros((rows.shape[1], rows.shape[1]))
    matters = np.zeros(len(encoding.columns))
    residual = 0.0
    for member in members:
        apart = member.effects - effects
        covariance += member.share * (member.variance * member.shape + np.outer(apart, apart))
        residual += member.share * member.variance
        for each in member.chosen:
            matters[each] += member.share
    raised = _shortfall(members, rows - centre, values - intercept, weights)
    return _Mixture(
        intercept=intercept,
        centre=centre,
        effects=effects,
        covariance=raised * covariance,
        unexplained=raised * residual * (1.0 + 1.0 / weights.sum()),
        matters=matters,
        unseen=raised * _unseen(np.outer(effects, effects) + covariance, encoding),
    )


def _unseen(products: Array, encoding: Encoding) -> Array:
    """An effect that was not measured is as large as those of the same hyperparameter, which are few.

    Of one that was never varied, it is as large as those of an average one that was.
    """
    found = np.zeros(len(encoding.columns) + 1)
    for at, each in enumerate(encoding.columns):
        if each.varies:
            own = products[each.at, each.at]
            if not each.is_numeric:  # what all categories have in common cannot be told from the mean
                own = own - own.mean(axis=0)
                own = own - own.mean(axis=1)[:, None]
            found[at] = np.trace(own) / max(1, len(own) - 1)
    varied = [each.varies for each in encoding.columns]
    found[[*np.logical_not(varied), True]] = found[[*varied, False]].mean()
    return found


def _shortfall(members: Sequence[_Member], rows: Array, values: Array, weights: Array) -> float:
    """How far squared leave-one-out errors exceed the variances claimed for them; 1 if they do not."""
    means, variances, squares = np.zeros(len(values)), np.zeros(len(values)), np.zeros(len(values))
    for member in members:
        leverage = weights / weights.sum() + weights * np.einsum("ij,ij->i", rows @ member.shape, rows)
        left = 1.0 - np.minimum(leverage, 1.0 - 1e-9)
        errors = (values - rows @ member.effects) / left
        means += member.share * errors
        squares += member.share * errors**2
        variances += member.share * member.variance / (weights * left)
    return max(1.0, float(np.mean(means**2 / (variances + squares - means**2))))


class SpeedModel:
    """Predicts the speed of any configuration of the space that was measured."""

    def __init__(self, encoding: Encoding, mixture: _Mixture, cap: float) -> None:
        self._encoding = encoding
        self._mixture = mixture
        self._cap = cap

    def predict(self, config: Configuration | Settings) -> SpeedGuess:
        factors, spreads = self.predict_all([config])
        return SpeedGuess(float(factors[0]), float(spreads[0]))

    def predict_all(self, configs: Iterable[Configuration | Settings]) -> tuple[Array, Array]:
        """Factors and spreads, as of `predict`."""
        mixture = self._mixture
        rows, unknown = self._encoding.rows([dict(config) for config in configs])
        centred = rows - mixture.centre
        for at, each in enumerate(self._encoding.columns):
            centred[unknown[:, at] > 0.0, each.at] = 0.0  # an unmeasured value is taken as average
        means = np.clip(mixture.intercept + centred @ mixture.effects, -_MOST_LOG, _MOST_LOG)
        variances = mixture.unexplained + unknown @ mixture.unseen
        variances += np.einsum("ij,ij->i", centred @ mixture.covariance, centred)
        variances = np.minimum(variances, self._cap)
        return np.exp(means + variances / 2.0), np.sqrt(np.expm1(variances))

    def influences(self) -> tuple[Influence, ...]:
        """What each hyperparameter that was varied does to the speed, the strongest first."""
        found = []
        for at, each in enumerate(self._encoding.columns):
            if each.varies:
                effects = self._mixture.effects[each.at]
                every = [*(effects[0] * end for end in each.ends), *effects[int(each.is_numeric) :]]
                ratio = math.exp(max(every) - min(every))
                found.append(Influence(each.name, float(self._mixture.matters[at]), ratio))
        return tuple(sorted(found, key=lambda each: (-each.ratio, each.name)))


def fit_speeds(speeds: Sequence[ConfigSpeed]) -> SpeedModel | None:
    """None if nothing can be said: fewer than two different configurations were measured."""
    if len({each.config for each in speeds}) < 2:
        return None
    # The order must not matter, not even for how sums are rounded.
    ordered = sorted(speeds, key=lambda each: (each.factor, each.weight, repr(each.config)))
    configs = [dict(each.config) for each in ordered]
    encoding = Encoding.of(configs)
    rows, _ = encoding.rows(configs)
    values = np.log([each.factor for each in ordered])
    # Long measurements have no noise, but the misfit of the model; one iteration has as much of each.
    weights = np.array([each.weight / (1.0 + each.weight) for each in ordered])
    weights /= weights.mean()
    centred = np.sqrt(weights)[:, None] * (rows - weights @ rows / weights.sum())
    shifted = np.sqrt(weights) * (values - weights @ values / weights.sum())
    sums = _Sums.of(centred, shifted)
    varying = [at for at, each in enumerate(encoding.columns) if each.varies]
    stacks = _grow([each.at for each in encoding.columns], varying, sums)
    members = _members(stacks, len(varying), sums)
    mixture = _mix(members, rows, values, weights, encoding)
    return SpeedModel(encoding, mixture, max(_LEAST_CAP, 2.0 * float(np.var(values))))
