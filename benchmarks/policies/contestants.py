"""The policies that are compared on recorded curves, each with the machines that the same money buys.

Those of a fixed cluster have as many slots as the budget pays for until the deadline (SEER, section 6.3); the
elastic ones have the budget. Eta is 4 for all (SEER's and HyperSched's); a round of SEER takes an iteration
on one slot at least, and so does the first rung of the others. SHA is run by RubberBand: with as many trials
as can be trained for that money by then, the last one for as many iterations as one slot manages until the
deadline. All draw rows of the table, each once before any is drawn again; those with a model draw the row
nearest to its proposal. `outside` has the contestants of other libraries.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.policies.curves import ITERATION_S
from benchmarks.policies.settings import Setting
from benchmarks.policies.simulating import JobDict, is_feasible
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.job.search import SEARCHES

ETA = 4
PLAIN = {"kind": "table", "replace": True}
TPE = {"kind": "tpe", "replace": True}
GP = {"kind": "gp", "replace": True}
# A job in which only the search may be wrong.
_ANY_TERMS = {
    "trainable": "synthetic:hypersched",
    "deadline": "1h",
    "budget": 10,
    "profile": {"iteration": 1},
    "cluster": {"slots_per_node": 4, "price_per_hour": 4},
}


class Group(enum.Enum):
    """What a contestant is in the comparison."""

    PAPERS = "the papers' policies, as published or mended"
    BASELINE = "baselines"
    OURS = "our own policy"
    OUTSIDE = "other libraries"
    VARIANT = "one of them with one thing changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """`options` are those of `search` in the job. A `VARIANT` is compared with the contestant `of`."""

    name: str
    group: Group
    algorithm: str
    options: Mapping[str, object] = field(default_factory=dict)
    sampler: Mapping[str, object] | None = field(default_factory=lambda: PLAIN)
    """None: the policy's own choice."""
    elastic: bool = False
    trains_to_the_end: bool = False
    """Whether it is given the length of a complete training, as the last rung."""
    is_planned: bool = False
    """Whether the number of its trials has to be found."""
    of: str | None = None
    is_slow: bool = False
    """Only in the full campaign."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """Of `forecast`, in an ablation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideContestant:
    """Of another library, which `benchmarks.policies.outside` drives on the same tables and clock."""

    name: str
    library: str
    group: Group = Group.OUTSIDE
    of: str | None = None
    is_slow: bool = False


AnyContestant = Contestant | OutsideContestant


def _rungs(name: str, algorithm: str, group: Group, **options: object) -> Contestant:
    """On a fixed cluster, with rungs from the first iteration to the last."""
    sampler, of = options.pop("sampler", PLAIN), options.pop("of", None)
    is_slow = sampler is GP  # up to a second per trial
    return Contestant(
        name=name,
        group=group,
        algorithm=algorithm,
        options={"eta": ETA, "min_iterations": 1, **options},
        sampler=sampler,  # type: ignore[arg-type]  # one of the three above
        trains_to_the_end=True,
        of=of,  # type: ignore[arg-type]  # a name
        is_slow=is_slow,
    )


def _seer(name: str, group: Group = Group.VARIANT, **options: object) -> Contestant:
    return Contestant(
        name=name,
        group=group,
        algorithm="seer",
        options={"eta": ETA, "min_round": ITERATION_S, **options},
        elastic=True,
        of="seer" if group is Group.VARIANT else None,
    )


def _forecast(
    name: str,
    group: Group = Group.VARIANT,
    *,
    sampler: Mapping[str, object] = PLAIN,
    elastic: bool = True,
    **constants: float,
) -> Contestant:
    """`constants` of its `Shape` that differ from the usual ones."""
    return Contestant(
        name=name,
        group=group,
        algorithm="forecast",
        sampler=sampler,
        elastic=elastic,
        trains_to_the_end=True,
        of="forecast" if group is Group.VARIANT else None,
        constants=constants,
    )


CONTESTANTS: tuple[AnyContestant, ...] = (
    _forecast("forecast", Group.OURS),
    _rungs("hypersched", "hypersched", Group.PAPERS),
    _rungs("hypersched, as published", "hypersched", Group.PAPERS, letter=True),
    _seer("seer", Group.PAPERS),
    _seer("seer, as published", Group.PAPERS, letter=True),
    Contestant(
        name="sha",
        group=Group.PAPERS,
        algorithm="sha",
        options={"eta": ETA, "min_iterations": 1},
        elastic=True,
        is_planned=True,
    ),
    _rungs("asha", "asha", Group.BASELINE),
    _rungs("asha + tpe", "asha", Group.BASELINE, sampler=TPE),
    _rungs("asha + gp", "asha", Group.BASELINE, sampler=GP),
    _rungs("hyperband", "bohb", Group.BASELINE, repeat=True),
    _rungs("bohb", "bohb", Group.BASELINE, repeat=True, sampler=TPE),
    Contestant(
        name="e-hyperband",
        group=Group.BASELINE,
        algorithm="e-hyperband",
        options={"eta": ETA, "min_round": ITERATION_S},
        elastic=True,
    ),
    Contestant(name="e-grid", group=Group.BASELINE, algorithm="e-grid", elastic=True),
    Contestant(name="random", group=Group.BASELINE, algorithm="random", trains_to_the_end=True),
    OutsideContestant(name="Optuna", library="optuna"),
    OutsideContestant(name="Ray Tune", library="ray"),
    _rungs("hypersched + tpe", "hypersched", Group.VARIANT, sampler=TPE, of="hypersched"),
    _seer("seer, elimination: bracket", elimination="bracket"),
    _seer("seer, spend_leftover: false", spend_leftover=False),
    _forecast("forecast, fixed machines", elastic=False),
    _forecast("forecast + tpe", sampler=TPE),
    _forecast("forecast, even spending", exploring_money=0.25),
    _forecast("forecast, no second rung before the turn", exploring_share=0.0),
    _forecast("forecast, flat shares", sharpness=1.0),
    _forecast("forecast, one slot each", least_efficiency=math.inf),
)


def contestants_named(names: list[str]) -> list[AnyContestant]:
    known = {each.name: each for each in CONTESTANTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no contestant {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in names]


def why_not(contestant: AnyContestant) -> str | None:
    """Why it cannot take part with the code that is installed; None: it can."""
    if isinstance(contestant, OutsideContestant):
        try:
            __import__(contestant.library)
        except ImportError as error:
            return f"{contestant.library} is not installed: {error}"
        return None
    if contestant.algorithm not in SEARCHES:
        return f"no policy {contestant.algorithm!r} is registered"
    search = {"algorithm": contestant.algorithm, **contestant.options}
    if contestant.trains_to_the_end or contestant.is_planned:
        search["max_iterations"] = 16
    if contestant.is_planned:
        search["trials"] = 4
    try:
        Job.from_dict({"search": search, **_ANY_TERMS})
    except JobError as error:
        return f"its options are refused: {error}"
    return None


def _sampled(contestant: Contestant) -> dict[str, object]:
    return {} if contestant.sampler is None else {"sampler": dict(contestant.sampler)}


class Jobs:
    """Makes jobs, and remembers how many trials of SHA fit, which is the same for all tables of a length."""

    def __init__(self) -> None:
        self._trials: dict[tuple[str, str, int], int] = {}

    def of(self, contestant: Contestant, setting: Setting) -> JobDict:
        curves = setting.curves
        search: dict[str, object] = {"algorithm": contestant.algorithm, **contestant.options}
        search |= _sampled(contestant)
        if contestant.trains_to_the_end:
            search["max_iterations"] = curves.longest
        if contestant.is_planned:
            search |= self._sized(contestant, setting)
        return {
            "trainable": {"curves": str(curves.path)},
            "metric": curves.metric,
            "mode": curves.mode,
            "search": search,
            **setting.job_terms(elastic=contestant.elastic),
        }

    def _sized(self, contestant: Contestant, setting: Setting) -> dict[str, object]:
        """The most trials that keep the deadline and the budget."""
        iterations = int(setting.deadline_s / ITERATION_S)
        longest = min(setting.curves.longest, iterations)
        key = (setting.law.name, str(setting.terms), setting.curves.longest)
        if key not in self._trials:
            terms = setting.job_terms(elastic=True)
            search = {"algorithm": contestant.algorithm, **contestant.options, "max_iterations": longest}
            low, high = 1, 2 * setting.terms.slots * iterations
            while low < high:
                middle = (low + high + 1) // 2
                if is_feasible({**terms, "search": {**search, "trials": middle}}):
                    low = middle
                else:
                    high = middle - 1
            self._trials[key] = low
        return {"max_iterations": longest, "trials": self._trials[key]}
