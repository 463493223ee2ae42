"""Prices that are looked up are the same in quote, simulation and run, and shown with their source."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import elastune
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.providers.registry import known_providers
from elastune.runs.quotes.policy_quote import PolicyQuote
from elastune.setup.run_setup import SetupPurpose, interruptions_per_hour, prepare, with_price
from elastune.views.terminal.plan import render_quote
from elastune.views.terminal.policy import render_policy_quote
from tests.job.example_jobs import job_data
from tests.providers.ec2.price_server import Prices, serving, without_aws
from tests.providers.test_registry import install

CLUSTER: dict[str, object] = {
    "provider": "ec2",
    "slots_per_node": 4,
    "options": {"instance_type": "p3.8xlarge", "image": "ami-1", "region": "us-east-1"},
}
LISTED = "EC2 on demand, us-east-1, price list of 13 Nov 2026"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Prices]:
    if "ec2" not in known_providers():
        monkeypatch.syspath_prepend(str(tmp_path))
        install(tmp_path, "ec2 = elastune.providers.registry:simulate")
    without_aws(monkeypatch)
    prices = Prices(on_demand={("p3.8xlarge", "us-east-1"): 12.5}, spot={("p3.8xlarge", "us-east-1b"): 4.0})
    with serving(prices, monkeypatch):
        yield prices


def ec2_job(market: str = "on-demand", **changes: object) -> Job:
    options = {**CLUSTER["options"], "market": market}  # type: ignore[dict-item]
    return Job.from_dict(job_data(cluster={**CLUSTER, "options": options}, **changes))


def shown(quote: object) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(
        render_policy_quote(quote) if isinstance(quote, PolicyQuote) else render_quote(quote)  # type: ignore[arg-type]
    )
    return " ".join(console.export_text().split())


def test_a_price_is_looked_up_and_kept_in_the_job() -> None:
    job = with_price(ec2_job())
    assert (job.cluster.price_per_hour, job.cluster.price_source) == (12.5, LISTED)
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))).cluster == job.cluster


def test_what_was_looked_up_is_not_asked_again(aws: Prices) -> None:
    job = with_price(ec2_job())
    asked = len(aws.asked)
    assert with_price(job) is job
    assert len(aws.asked) == asked


def test_the_jobs_own_price_comes_first(aws: Prices) -> None:
    job = Job.from_dict(job_data(cluster={**CLUSTER, "price_per_hour": 9}))
    assert with_price(job) is job
    assert not aws.asked
    assert "per node-hour" not in shown(elastune.plan(job))


def test_quote_and_simulation_and_run_say_the_same_price() -> None:
    quote = elastune.plan(ec2_job())
    assert quote.problem.cluster.price_per_hour == 12.5
    for purpose in (SetupPurpose.SIMULATE, SetupPurpose.QUOTE):
        setup = prepare(ec2_job(trainable="synthetic:hypersched"), purpose=purpose)
        assert setup.terms.cluster.price_per_hour == 12.5
        assert setup.terms.cluster.price_source == LISTED
        assert setup.job.cluster.price_per_hour == 12.5


def test_the_quote_shows_price_source_and_date() -> None:
    quote = elastune.plan(ec2_job())
    assert f"$12.50 per node-hour ({LISTED})" in shown(quote)
    assert quote.to_dict()["price_per_hour"] == 12.5
    assert quote.to_dict()["price_source"] == LISTED


def test_so_does_the_quote_of_a_policy() -> None:
    quote = elastune.quote(ec2_job(search={"algorithm": "asha", "trials": 9, "max_iterations": 9}))
    assert f"$12.50 per node-hour ({LISTED})" in shown(quote)
    assert quote.to_dict()["price_source"] == LISTED


def test_the_dearest_that_may_come_is_in_the_terms_and_the_quote() -> None:
    quote = elastune.plan(ec2_job("spot-with-fallback"))
    terms = quote.problem.cluster
    assert (terms.price_per_hour, terms.most_price_per_hour) == (4.0, 12.5)
    assert "$4.00 per node-hour" in shown(quote)
    assert "at most $12.50 for what may come instead" in shown(quote)


def test_spot_is_simulated_with_interruptions() -> None:
    quote = elastune.plan(ec2_job("spot"))
    assert quote.risk is not None
    assert quote.risk.interruptions_per_hour == 0.05
    assert "0.05 interruptions per node-hour; in 20 simulations" in shown(quote)
    assert elastune.plan(ec2_job()).risk is None


def test_the_jobs_own_rate_comes_first() -> None:
    job = ec2_job("spot")
    assert interruptions_per_hour(job) == 0.05
    cluster = job.cluster.model_copy(update={"interruptions_per_hour": 0.5})
    assert interruptions_per_hour(job.model_copy(update={"cluster": cluster})) == 0.5


def test_options_that_are_wrong_are_reported_before_anything_is_planned() -> None:
    with pytest.raises(JobError, match=r"cluster\.options\.market is 'free'; expected on-demand, spot"):
        elastune.plan(ec2_job("free"))


def test_without_aws_there_is_still_a_quote(monkeypatch: pytest.MonkeyPatch) -> None:
    without_aws(monkeypatch)
    quote = elastune.plan(ec2_job())
    assert quote.problem.cluster.price_per_hour == 12.24
    assert "built-in list of 26 Aug 2026; AWS gave none: there are no AWS credentials" in shown(quote)


def test_an_installed_provider_may_know_its_prices(site: Path) -> None:
    (site / "acme.py").write_text(
        "from elastune.model.billing import Quotation\n"
        "from elastune.providers.registry import simulate\n"
        "def make(setting): return simulate(setting)\n"
        "make.quote_price = lambda options: Quotation(\n"
        "    usd_per_hour=options['usd'], source='Acme', as_of='today')\n"
        "make.interruptions_per_hour = lambda options: 0.25\n",
        encoding="utf-8",
    )
    install(site, "acme = acme:make")
    job = Job.from_dict(job_data(cluster={"provider": "acme", "slots_per_node": 1, "options": {"usd": 7}}))
    priced = with_price(job).cluster
    assert (priced.price_per_hour, priced.price_source) == (7, "Acme of today")
    assert interruptions_per_hour(job) == 0.25


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("site")
    monkeypatch.syspath_prepend(str(folder))
    return folder
