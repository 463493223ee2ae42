"""Makes the quote of a problem: runs the planners, or explains why no plan keeps the limits."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from statistics import fmean

from elastune.model.billing import node_rate
from elastune.model.limits import Limits, Objective
from elastune.planning.brackets import Answer, solve, trade_offs
from elastune.planning.infeasible import NoPlanError, Situation, describe_infeasible, diagnose
from elastune.planning.planners.registry import DEFAULT_PLANNER, PLANNERS, Planner
from elastune.planning.problem import Problem, build_case
from elastune.planning.quote import (
    BracketQuote,
    FrontierPoint,
    Quote,
    SpeedRange,
    forecast,
    quote_stages,
)
from elastune.planning.stage_options import Grid
from elastune.wording import format_usd

DEFAULT_SAMPLES = 4096
# Cluster sizes that are tried where money is kept back for each node: all of them up to this one; of larger
# clusters, and if latencies are random, some.
EVERY_SIZE = 64
SOME_SIZES = Grid(every=4, ratio=1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteRequest:
    planner: str = DEFAULT_PLANNER
    objective: Objective | None = None  # None: cost, unless there is only a budget
    samples: int = DEFAULT_SAMPLES
    seed: int = 0
    frontier: bool = False
    compare: bool = False
    static: bool = True  # price the best static cluster beside the plan
    bounded: bool = True  # say how far from the optimum the plan can be


def default_objective(limits: Limits) -> Objective:
    """Cost; with only a budget, time."""
    only_budget = limits.budget_usd is not None and limits.deadline_s is None
    return Objective.TIME if only_budget else Objective.COST


def make_quote(problem: Problem, request: QuoteRequest | None = None) -> Quote:
    """The planner's best plan for the problem; raises `NoPlanError` if none keeps the limits."""
    return _Quoting(problem, request or QuoteRequest()).quote()


def try_quote(problem: Problem, request: QuoteRequest) -> Quote | None:
    """As `make_quote`, but None without a diagnosis if no plan keeps the limits."""
    return _Quoting(problem, request).try_quote()


class _Quoting:
    """One problem; its cases are built once and used many times."""

    def __init__(self, problem: Problem, request: QuoteRequest) -> None:
        self.problem = problem
        self.request = request
        self.objective = request.objective or default_objective(problem.limits)
        built = (
            build_case(workload, problem.gangs, samples=request.samples, seed=request.seed, stream=stream)
            for stream, workload in enumerate(problem.workloads())
        )
        self.cases = [replace(case, bounded=request.bounded) for case in built]

    def _unbounded(self) -> _Quoting:
        """The same without lower bounds, which a diagnosis does not need."""
        other = copy.copy(self)
        other.cases = [replace(case, bounded=False) for case in self.cases]
        other.request = replace(self.request, bounded=False)
        return other

    def ask(self, name: str) -> Answer | None:
        return self._solve(PLANNERS[name], self.problem.limits, self.objective)

    def ask_exact(self) -> Answer | None:
        """The answer of the default planner, if the request is for another one."""
        return None if self.request.planner == DEFAULT_PLANNER else self.ask(DEFAULT_PLANNER)

    def _solve(self, planner: Planner, limits: Limits, objective: Objective) -> Answer | None:
        """Keep back the cost of nodes that outlive a dead driver, by node: plans may not spend it."""
        answer = solve(planner, self.cases, limits, objective)
        kept_usd, budget = self._kept_usd(), limits.budget_usd
        if answer is None or budget is None or not kept_usd:
            return answer
        if limits.keep_budget_but(answer.outcome, answer.peak_nodes * kept_usd):
            return answer
        return self._best_of_sizes(planner, limits, objective, answer)

    def _best_of_sizes(
        self, planner: Planner, limits: Limits, objective: Objective, unkept: Answer
    ) -> Answer | None:
        """The best of several cluster sizes: the money kept back for a large one is not left for training.

        `unkept`: the answer with nothing kept back.
        """
        kept_usd, budget = self._kept_usd(), limits.budget_usd or 0.0
        certain = self.problem.is_deterministic
        most = self.problem.cluster.max_nodes if certain else unkept.peak_nodes
        every = certain and most <= EVERY_SIZE
        sizes = range(1, most + 1) if every else SOME_SIZES.counts(most)
        found: list[Answer] = []
        for nodes in sizes:
            left_usd = budget - nodes * kept_usd
            if nodes >= self._least_nodes() and left_usd > 0:
                cluster = replace(self.problem.cluster, max_nodes=nodes, fixed=False)
                fewer = _Quoting(replace(self.problem, cluster=cluster), self.request)
                answer = solve(planner, fewer.cases, replace(limits, budget_usd=left_usd), objective)
                found += [] if answer is None else [answer]
        if not found:
            return None
        by_cost = objective is Objective.COST
        best = min(found, key=lambda each: each.outcome.mean_cost_usd if by_cost else each.outcome.mean_jct_s)
        if every and all(each.optimal for each in found):
            return best
        # Another number of nodes may be better, but none is better than with nothing kept back.
        return replace(best, optimal=False, lower_bound=unkept.lower_bound)

    def _kept_usd(self) -> float:
        """Money kept back for each node."""
        cluster = self.problem.cluster
        return cluster.shutdown_s * node_rate(cluster)

    def quote(self) -> Quote:
        if quote := self.try_quote():
            return quote
        raise self._no_plan()

    def try_quote(self) -> Quote | None:
        request = self.request
        answer = self.ask(request.planner)
        if answer is None:
            return None
        every = [name for name, planner in PLANNERS.items() if planner.compared or name == request.planner]
        asked = every if request.compare else ["static"] if request.static else []
        others = {name: answer if name == request.planner else self.ask(name) for name in asked}
        confidence = self.problem.limits.confidence
        comparison = {name: forecast(other, confidence) for name, other in others.items()}
        return Quote(
            planner=request.planner,
            objective=self.objective,
            problem=self.problem,
            jct_seconds=answer.outcome.mean_jct_s,
            cost=answer.outcome.mean_cost_usd,
            jct_quantile_seconds=answer.outcome.jct_quantile_s(confidence),
            cost_quantile=answer.outcome.cost_quantile_usd(confidence),
            optimal=answer.optimal,
            lower_bound=answer.lower_bound,
            brackets=self._brackets(answer),
            static=comparison.get("static"),
            samples=self.cases[0].evaluator.draws.samples,
            seed=request.seed,
            speeds=self._speeds(answer),
            frontier=self._frontier() if request.frontier else None,
            comparison=comparison if request.compare else None,
        )

    def _speeds(self, answer: Answer) -> SpeedRange | None:
        if answer.outcome.worst is None:
            return None
        workloads = [case.evaluator.workload for case in self.cases]
        speeds = [speed for workload in workloads for speed in workload.trial_speeds]
        confidence, unrelated = self.problem.limits.confidence, replace(answer.outcome, worst=None)
        return SpeedRange(
            known=sum(len(workload.speeds) for workload in workloads),
            trials=len(speeds),
            spread=fmean(speed.spread for speed in speeds),
            jct_quantile_seconds=unrelated.jct_quantile_s(confidence),
            cost_quantile=unrelated.cost_quantile_usd(confidence),
        )

    def _brackets(self, answer: Answer) -> tuple[BracketQuote, ...]:
        return tuple(
            BracketQuote(
                name=spec.name,
                plan=solution.plan,
                stages=quote_stages(case.evaluator.workload, solution),
                jct_seconds=solution.outcome.mean_jct_s,
                cost=solution.outcome.mean_cost_usd,
            )
            for spec, case, solution in zip(self.problem.specs, self.cases, answer.brackets, strict=True)
        )

    def _frontier(self) -> tuple[FrontierPoint, ...]:
        return tuple(
            FrontierPoint(
                jct_seconds=answer.outcome.mean_jct_s,
                cost=answer.outcome.mean_cost_usd,
                peak_nodes=answer.peak_nodes,
            )
            for answer in trade_offs(PLANNERS[self.request.planner], self.cases)
        )

    def _no_plan(self) -> NoPlanError:
        situation = Situation(
            limits=self.problem.limits,
            objective=self.objective,
            max_nodes=self.problem.cluster.max_nodes,
            fixed=self.problem.cluster.fixed,
            hops=self.problem.hopping is not None,
            least_nodes=self._least_nodes(),
            solve=self._unbounded().solve_with,
            by_exact=self._unbounded().ask_exact,
        )
        diagnosis = diagnose(situation)
        text, kept_usd = describe_infeasible(diagnosis, self.request.planner), self._kept_usd()
        if kept_usd and self.problem.limits.budget_usd is not None:
            text += (
                f"\nOf the budget {format_usd(kept_usd)} per node is kept back: a node may cost that much "
                "until it ends by itself, if the driver dies."
            )
        return NoPlanError(text, diagnosis)

    def solve_with(self, limits: Limits, objective: Objective, nodes: int | None) -> Answer | None:
        """The same job under other limits or, elastic, with other nodes (None: all that are useful)."""
        planner = PLANNERS[self.request.planner]
        if nodes == self.problem.cluster.max_nodes:
            return self._solve(planner, limits, objective)
        cluster = replace(self.problem.cluster, max_nodes=nodes or self._most_nodes(), fixed=False)
        other = _Quoting(replace(self.problem, cluster=cluster), self.request)
        return other._solve(planner, limits, objective)

    def _least_nodes(self) -> int:
        """The fewest nodes that hold the smallest gangs of all brackets, which run side by side."""
        per_gang = -(-self.cases[0].gang_sizes[0] // self.problem.cluster.slots_per_node)
        return per_gang * len(self.cases)

    def _most_nodes(self) -> int:
        """The most nodes that a plan can use."""
        hopping, per_node = self.problem.hopping, self.problem.cluster.slots_per_node
        if hopping is not None:
            return -(-hopping.partitions * hopping.replicas // per_node) * len(self.cases)
        per_gang = -(-self.cases[0].gang_sizes[-1] // per_node)
        return per_gang * sum(max(s.trials for s in case.evaluator.workload.stages) for case in self.cases)
