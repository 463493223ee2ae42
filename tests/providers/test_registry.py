"""Providers by name, built in and installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.providers.protocol import ProviderSetting
from elastune.providers.registry import known_providers, load_provider
from elastune.providers.simulated import SimulatedProvider
from tests.providers.clouds import Clock, terms


def install(folder: Path, entry: str) -> None:
    """Another package with this entry point."""
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[elastune.providers]\n{entry}\n", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_simulated_provider_is_built_in() -> None:
    assert "simulated" in known_providers()
    setting = ProviderSetting(run="r", terms=terms(), clock=Clock(), seed=3, expires_s=60.0)
    assert isinstance(load_provider("simulated")(setting), SimulatedProvider)


def test_the_simulated_provider_has_no_options() -> None:
    setting = ProviderSetting(run="r", terms=terms(), clock=Clock(), options={"region": "moon", "image": 1})
    with pytest.raises(JobError, match="no options, but was given image, region"):
        load_provider("simulated")(setting)


def test_an_installed_provider_is_found_by_its_name(site: Path) -> None:
    install(site, "acme = elastune.providers.registry:simulate")
    assert set(known_providers()) >= {"acme", "simulated"}
    assert list(known_providers()) == sorted(known_providers())
    setting = ProviderSetting(run="r", terms=terms(), clock=Clock())
    assert isinstance(load_provider("acme")(setting), SimulatedProvider)


def test_an_unknown_name_is_answered_with_the_known_ones(site: Path) -> None:
    install(site, "acme = nowhere:nothing")
    with pytest.raises(JobError, match=r"no provider 'azure', expected one of acme.*, simulated"):
        load_provider("azure")


@pytest.mark.parametrize("broken", ["nowhere:nothing", "elastune.providers:nothing"])
def test_a_provider_that_cannot_be_imported_says_why(site: Path, broken: str) -> None:
    install(site, f"acme = {broken}")
    with pytest.raises(JobError, match=rf"'acme' \({broken}\) cannot be imported: .*no"):
        load_provider("acme")


def test_a_provider_has_to_be_a_function(site: Path) -> None:
    install(site, "acme = elastune.providers.registry:GROUP")
    with pytest.raises(JobError, match="is no function from ProviderSetting to Provider"):
        load_provider("acme")


def test_a_name_that_is_offered_twice_is_refused(site: Path) -> None:
    install(site, "simulated = acme:cloud")
    with pytest.raises(JobError, match=r"offered more than once \(built in, acme:cloud\): remove one"):
        load_provider("simulated")
