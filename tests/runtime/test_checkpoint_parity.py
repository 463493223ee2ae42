"""Both runtimes save after the same iterations: the real saver on the test's clock, and a simulated gang."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, cast

from hypothesis import example, given
from hypothesis import strategies as st

from elastune.curves.table import TableCurve
from elastune.model.checkpoint_rule import CheckpointRule
from elastune.model.metric import Inequality, Mode, Target
from elastune.runtime.ray.messages import CodeReference, Form, GangId, GangTerms, WorkerSpec
from elastune.runtime.ray.slot_io import Reporter, Saver
from elastune.runtime.simulated.gang import SimulatedGang
from elastune.runtime.simulated.latency import GangPace
from tests.runtime.workshop import lease, profile
from tests.waiting import PATIENCE_S

NAN = float("nan")


class Step(NamedTuple):
    """One iteration, and the best value of all trials that is known when the next one begins."""

    seconds: float
    value: float
    keep_above: float | None = None


class RealGang:
    """A real saver. It is its clock, its training and its store, on which a write takes `rule.save_s`."""

    def __init__(self, rule: CheckpointRule) -> None:
        self.rule = rule
        self.now_s = 0.0
        self.iteration = 0
        self.saved: list[int] = []
        self.written_s: float | None = None
        self.may_end = threading.Semaphore(0)
        parts = cast("Any", self)
        worker_spec = WorkerSpec(
            script=CodeReference(name="train", metric="score"),
            store=parts,
            checkpoints=rule,
            pickles=False,
            threads=1,
            logs=None,
        )
        self.saver = Saver(worker_spec, FORM, parts, Reporter(parts), clock=lambda: self.now_s)

    def save(self) -> dict[str, int]:
        self.saved.append(self.iteration)
        self.written_s = self.now_s + self.rule.save_s
        return {}

    def write(self, trial: int, iteration: int, data: bytes) -> None:
        assert self.may_end.acquire(timeout=PATIENCE_S)

    def train(self, steps: list[Step]) -> list[int]:
        ended_s = 0.0
        for self.iteration, step in enumerate(steps, start=1):
            ended_s += step.seconds
            if self.written_s is not None and self.written_s <= ended_s:
                self.finish_writing()
            if self.written_s is not None and self.rule.is_awaited(step.value):
                self.let_write_end()  # the saver waits for it
            else:
                self.now_s = ended_s
            self.saver.consider(self.iteration, step.value, ended_s)
            if self.written_s is None:
                self.saver.finish()
            self.saver.raise_bar(step.keep_above)
        if self.written_s is not None:
            self.finish_writing()
        return self.saved

    def finish_writing(self) -> None:
        self.let_write_end()
        self.saver.finish()

    def let_write_end(self) -> None:
        assert self.written_s is not None
        self.now_s, self.written_s = self.written_s, None
        self.may_end.release()


FORM = Form(
    gang=GangId(0, 1),
    rank=0,
    size=1,
    config={},
    seed=0,
    after_iteration=0,
    origin=0,
    expected_s=1.0,
    terms=GangTerms(until_iteration=1_000, until=None, keep_above=None),
)


def simulated(rule: CheckpointRule, steps: list[Step]) -> list[int]:
    values, seconds = [step.value for step in steps], [step.seconds for step in steps]
    curve = TableCurve(metric="score", values=values, measured=seconds)
    first = lease(len(steps), keep_above=None)
    gang = SimulatedGang(first, GangPace(profile(), (0,), 1.0), curve, rule, metric="score")
    gang.train(0.0)
    gang.stop_at = gang.plan(0.0)
    for index, step in enumerate(steps):
        if step.keep_above is not None:
            gang.renew(lease(len(steps), keep_above=step.keep_above), gang.ends[index])
    return [iteration for _, iteration, _ in gang.saves]


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([0.25, 1.0, 2.5, 7.0, 31.0]),
        st.sampled_from([*map(float, range(10)), NAN]),
        st.sampled_from([None] * 8 + [3.0, 7.0]),
    ),
    min_size=1,
    max_size=40,
)
TARGETS = {
    Mode.MAX: Target(metric="score", comparison=Inequality.AT_LEAST, value=8.0),
    Mode.MIN: Target(metric="score", comparison=Inequality.AT_MOST, value=1.0),
}
RULES = st.builds(
    lambda every_s, save_s, mode, has_target: CheckpointRule(
        mode=mode, every_s=every_s, save_s=save_s, target=TARGETS[mode] if has_target else None
    ),
    st.sampled_from([1.0, 5.0, 30.0, 600.0]),
    st.sampled_from([0.0, 0.5, 2.0, 7.0]),
    st.sampled_from(Mode),
    st.booleans(),
)
OFTEN = CheckpointRule(mode=Mode.MAX, every_s=5.0, save_s=2.0)


@given(rule=RULES, steps=STEPS)
@example(rule=OFTEN, steps=[Step(1.0, 1.0)] * 50)
def test_both_runtimes_save_after_the_same_iterations(rule: CheckpointRule, steps: list[Step]) -> None:
    assert RealGang(rule).train(steps) == simulated(rule, steps)


def test_saves_of_two_seconds_begin_twenty_seconds_apart_whatever_the_job_says() -> None:
    steps = [Step(1.0, 1.0)] * 50
    assert RealGang(OFTEN).train(steps) == simulated(OFTEN, steps) == [1, 21, 41]


def test_where_the_target_is_reached_amid_a_write_the_next_one_begins_at_its_end() -> None:
    rule = CheckpointRule(mode=Mode.MAX, save_s=7.0, target=TARGETS[Mode.MAX])
    steps = [Step(1.0, 1.0), Step(1.0, 8.0), Step(1.0, 9.0), Step(90.0, 0.0)]
    assert RealGang(rule).train(steps) == simulated(rule, steps) == [1, 2, 3, 4]
