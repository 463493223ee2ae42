"""What a run says of prices in the end."""

from __future__ import annotations

from pathlib import Path

from elastune.history.result import Estimate
from elastune.history.status import NodePrices, status_of
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.simulation import Simulation, unnamed
from elastune.runtime.simulated.cloud import Faults
from elastune.setup.run_setup import prepare
from elastune.views.terminal.policy import describe_prices

LEARN = f"{Path(__file__).parents[1] / 'fire' / 'curves.py'}:learn"


def priced(**prices: object) -> Job:
    return Job.from_dict(
        {
            "trainable": LEARN,
            "metric": "score",
            "mode": "max",
            "space": {
                "limit": {"float": [0.1, 1.0]},
                "pace": {"float": [1.0, 20.0]},
                "breaks_at": {"choice": [1000]},
                "how": {"int": [4, 4]},
            },
            "search": {"algorithm": "sha", "trials": 8, "max_iterations": 8, "eta": 2},
            "profile": {"iteration": 30.0},
            "deadline": 400.0,
            "cluster": {"slots_per_node": 1, "max_nodes": 8, **prices},
        }
    )


def test_the_bill_tells_the_price_its_source_and_who_cost_something_else() -> None:
    source = "EC2 spot, us-east-1a, price of 16 Nov 2026"
    job = priced(price_per_hour=4.0, price_source=source, most_price_per_hour=12.24)
    setup = prepare(job, samples=64)
    run = Simulation(
        setup,
        seed=1,
        journal=MemoryJournal(),
        record=unnamed(setup),
        faults=Faults(nodes=NodeFaults(dearer=1.0)),
    )
    run.run()
    state = run.core.state
    nodes = len(state.ledger.nodes)
    standing = status_of(setup, state, seed=1, predicted=None)
    assert standing.prices == NodePrices(usd_per_hour=4.0, source=source, others=((12.24, nodes),))
    text = describe_prices(standing.prices)
    assert text == f"$4.00 per node-hour ({source}), {nodes} nodes at $12.24"
    result = run.result(Estimate(jct_seconds=0.0, cost=0.0)).to_dict()
    assert (result["price_per_hour"], result["price_source"]) == (4.0, source)
