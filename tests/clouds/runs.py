"""One run on a faulty EC2, from its first call until no instance is left, and what must hold then."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from elastune.core import commands as do
from elastune.core import limits as guards
from elastune.core.commands import AnyCommand
from elastune.core.core import Core
from elastune.core.events import AnyEvent
from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.journal.codec import replay
from elastune.journal.writer import MemoryJournal
from elastune.model.limits import Limit
from elastune.providers.ec2.calls import BILLING, CloudError, Ec2Calls, Market, Offering
from elastune.providers.ec2.fleet import LEASE_S, SHUTDOWN_S
from elastune.providers.ec2.inventory import wait_until_gone
from elastune.runs.simulation import Driver, Simulation, belief_of, unnamed
from elastune.setup.run_setup import RunSetup, prepare
from tests.clouds.brokered import EPOCH, Brokered
from tests.clouds.virtual import DriverKilledError, Misfortune, VirtualEc2

LEARN = f"{Path(__file__).parents[1] / 'fire' / 'curves.py'}:learn"
SPOT_USD, ON_DEMAND_USD = 4.0, 12.24
MOST_EVENTS = 30_000
CLOSE = 1e-9
WARES = (
    Offering(instance_type="p3.8xlarge", market=Market.SPOT, subnet=None, usd_per_hour=SPOT_USD),
    Offering(instance_type="p3.16xlarge", market=Market.SPOT, subnet=None, usd_per_hour=2 * SPOT_USD),
    Offering(instance_type="p3.8xlarge", market=Market.ON_DEMAND, subnet=None, usd_per_hour=ON_DEMAND_USD),
)
MakeCloud = Callable[[VirtualEc2], Ec2Calls]


class GivenUpError(Exception):
    """The driver died, and no other was started."""


class CloudRun(Simulation):
    def __init__(self, seed: int, make_cloud: MakeCloud = lambda world: world) -> None:
        luck = random.Random(f"cloud run {seed}")
        setup = make_setup(luck)
        super().__init__(setup, seed=seed, journal=MemoryJournal(), record=unnamed(setup))
        self.luck = luck
        self.asked: Counter[str] = Counter()
        self.deaths = 0
        self.returns = luck.random() < 0.7
        self.world = VirtualEc2(self.wall, make_misfortune(luck), seed=seed)
        self.provider = Brokered(
            setup.terms.cluster, self.world, make_cloud(self.world), WARES, clock=self.cloud_s, run=f"r{seed}"
        )
        self.provider.lease = self.lease
        self.provider.is_over = lambda: self.core.state.ended is not None
        self.body.cloud.provider = self.provider  # type: ignore[assignment]

    def cloud_s(self) -> float:
        return self.body.now_s + self.body.cloud.down_s

    def wall(self) -> float:
        return EPOCH + self.cloud_s()

    def lease(self) -> float | None:
        """Nobody knows before the run has begun, or begun again."""
        if self.returning or not self.core.state.events:
            return None
        return guards.may_live_until_s(self.core.state) + self.body.cloud.down_s

    returning = False

    def step(self) -> bool:
        if self.core.state.events > MOST_EVENTS:
            raise AssertionError(f"more than {MOST_EVENTS} events: the run goes round in circles")
        try:
            return super().step()
        except DriverKilledError:
            self._come_back()
            return True

    def _come_back(self) -> None:
        """Time passes without a driver; then a new driver, which knows only the journal."""
        self.returning = True
        cloud, before = self.body.cloud, self.body.cloud.down_s
        while True:
            self.deaths += 1
            if not self.returns and self.luck.random() < 0.5:
                raise GivenUpError
            cloud.down_s += self.luck.choice([0.2, 5.0, 40.0, 300.0, 3000.0])
            try:
                self.provider.take_over()
                self.provider.broker.look_afresh()
                self.writer.commit()
                core = replay(self.setup.make_core(self.seed), self.journal.read(self.record.run))
                self.writer.close()
                self.writer = self.journal.resume(self.record.run)
                self.driver = self._drive(core)
                down_s, cloud.down_s = cloud.down_s - before, before
                event = self.body.crash(down_s, belief_of(core.state))
                self.returning = False
                for command in self.driver(event):
                    self.body.carry_out(command)
            except (CloudError, DriverKilledError):
                self.returning = True
                continue
            return

    def _drive(self, core: Core) -> Driver:
        return _Heard(core, self)

    def hear(self, commands: Sequence[AnyCommand]) -> None:
        for command in commands:
            if isinstance(command, do.RequestNodes):
                self.asked[str(command.request)] = command.count


class _Heard(Driver):
    def __init__(self, core: Core, run: CloudRun) -> None:
        super().__init__(core, run.writer)
        self.run = run

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = super().__call__(event)
        self.run.hear(commands)
        return commands


def make_setup(luck: random.Random) -> RunSetup:
    algorithm = luck.choice(["sha", "sha", "asha", "seer", "random"])
    search: dict[str, object] = {"algorithm": algorithm, "max_iterations": luck.choice([3, 9])}
    if algorithm != "seer":
        search["trials"] = luck.choice([3, 6, 12])
    if algorithm not in {"random", "seer"}:
        search["min_iterations"] = 1
    data: dict[str, object] = {
        "trainable": LEARN,
        "metric": "score",
        "mode": "max",
        "space": {
            "limit": {"float": [0.1, 1.0]},
            "pace": {"float": [1.0, 20.0], "log": True},
            "breaks_at": {"choice": [1000]},
            "how": {"int": [4, 4]},
        },
        "search": search,
        "profile": {
            "iteration": luck.choice([20.0, 60.0, 200.0]),
            "startup": 5.0,
            "save": luck.choice([1.0, 8.0]),
        },
        "cluster": {
            "slots_per_node": luck.choice([1, 4]),
            "max_nodes": luck.choice([2, 4, 8]),
            "price_per_hour": SPOT_USD,
            "init": 40.0,
        },
    }
    deadline = luck.choice([1800.0, 7200.0])
    for factor in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        limits: dict[str, object] = {"budget": luck.choice([1.0, 2.0, 5.0]) * factor}
        if algorithm == "seer" or luck.random() < 0.5:
            limits["deadline"] = deadline * factor
        try:
            setup = prepare(Job.from_dict({**data, **limits}), samples=32)
        except InfeasibleError:
            continue
        cluster = replace(
            setup.terms.cluster,
            most_price_per_hour=ON_DEMAND_USD,
            shutdown_s=SHUTDOWN_S,
            least_life_s=BILLING.least_life_s,
        )
        return replace(setup, terms=replace(setup.terms, cluster=cluster))
    raise AssertionError("no limits are wide enough")


def make_misfortune(luck: random.Random) -> Misfortune:
    def maybe(*values: float) -> float:
        return luck.choice([0.0, *values])

    outages = []
    for _ in range(luck.choice([0, 0, 1, 3])):
        begin = EPOCH + luck.uniform(0.0, 4000.0)
        outages.append((begin, begin + luck.choice([30.0, 400.0, 2000.0])))
    return Misfortune(
        busy=maybe(0.1, 0.4),
        unheard=maybe(0.1, 0.2),
        unanswered=maybe(0.1, 0.2),
        no_capacity=maybe(0.2, 0.7),
        partial=maybe(0.5),
        lag_s=maybe(5.0, 25.0),
        lost_per_hour=maybe(0.5, 4.0),
        noticed_per_hour=maybe(0.5, 4.0),
        boot_failure=maybe(0.1),
        outages=tuple(outages),
        killed_after=tuple(luck.randint(1, 150) for _ in range(luck.choice([0, 1, 3, 8]))),
    )


def put_on_cloud(seed: int, make_cloud: MakeCloud = lambda world: world) -> CloudRun:
    """Run it; raises if an instance outlives its lease, is launched twice, or costs more than there is."""
    run = CloudRun(seed, make_cloud)
    try:
        run.run()
    except GivenUpError:
        check_after_silence(run)
    else:
        check_after_end(run)
    check_launches(run)
    check_money(run)
    return run


def check_after_silence(run: CloudRun) -> None:
    """Nobody is there any more: what lives ends by itself."""
    later = run.wall() + LEASE_S + run.world.misfortune.watchdog_s + 1.0
    assert not run.world.alive(later), f"{run.world.alive(later)} outlive their lease"


def check_after_end(run: CloudRun) -> None:
    """The driver looks until nothing is left."""
    left = run

    def pause(seconds: float) -> None:
        left.body.cloud.down_s += seconds

    for _ in range(60):
        try:
            wait_until_gone(run.provider.broker, rounds=60, pause=pause)
            break
        except DriverKilledError:
            return check_after_silence(run)
        except CloudError:
            continue
    alive = run.world.alive(run.wall())
    outage = any(begin <= run.wall() < end for begin, end in run.world.misfortune.outages)
    assert not alive or outage, f"{alive} live after the end"
    return check_after_silence(run)


def check_launches(run: CloudRun) -> None:
    """At no time are there more instances of a request than it asked for."""
    for request, count in run.asked.items():
        most = run.world.most_at_once(request)
        assert most <= count, f"request {request}: {most} at once, {count} asked for"


def check_money(run: CloudRun) -> None:
    state = run.core.state
    budget, bill = state.terms.limits.budget_usd, run.world.bill_usd()
    if budget is not None and Limit.BUDGET not in state.conceded:
        assert bill <= budget * (1 + CLOSE), f"${bill:.4f} spent of ${budget:.4f}, {run.deaths} deaths"
    assert math.isfinite(bill)
