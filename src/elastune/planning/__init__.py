"""Which plan to choose: planners, what is proven about their plans, and quotes."""

from elastune.planning.desk import DEFAULT_SAMPLES, Request, default_objective, make_quote, try_quote
from elastune.planning.forecast import Forecast
from elastune.planning.infeasible import Diagnosis, Limit, NoPlanError, Remedy
from elastune.planning.planners import DEFAULT_PLANNER, PLANNERS
from elastune.planning.problem import GangLimits, Limits, Objective, Problem, StartState
from elastune.planning.quote import BracketQuote, FrontierPoint, Quote, StageQuote

__all__ = [
    "DEFAULT_PLANNER",
    "DEFAULT_SAMPLES",
    "PLANNERS",
    "BracketQuote",
    "Diagnosis",
    "Forecast",
    "FrontierPoint",
    "GangLimits",
    "Limit",
    "Limits",
    "NoPlanError",
    "Objective",
    "Problem",
    "Quote",
    "Remedy",
    "Request",
    "StageQuote",
    "StartState",
    "default_objective",
    "make_quote",
    "try_quote",
]
