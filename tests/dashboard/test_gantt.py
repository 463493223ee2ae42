"""Why a trial left its slots, as the chart of slots says it."""

from __future__ import annotations

import pytest

from elastune.history.notes import RunNote
from elastune.model.ids import TrialId
from elastune.views.page.gantt import _stopped_on_request
from tests.dashboard.recorded import Recorded
from tests.dashboard.sites import Served

pytestmark = pytest.mark.xdist_group("dashboard")


def ends(dashboard: Served, run: str) -> set[str]:
    boxes = dashboard.get(f"/api/runs/{run}/figures").json()["gantt"]["boxes"]
    return {box["end"] for box in boxes if box["end"] is not None}


def test_it_is_said_where_a_trial_goes_on_or_why_it_does_not(dashboard: Served, recorded: Recorded) -> None:
    staged = ends(dashboard, recorded.runs["rubberband"])
    assert "saved, stopped by the policy" in staged
    assert any(text.startswith("saved, then moves to 2 slots of n0 at ") for text in staged)
    hopping = ends(dashboard, recorded.runs["hopping"])
    assert any(text.startswith(("moves to", "goes on there")) for text in hopping)
    failed = ends(dashboard, recorded.runs["failed"])
    assert "crashed, given up" in failed


def test_requests_are_read_from_their_notes() -> None:
    notes = [
        RunNote(at_s=1.0, topic="stop", text="trial 3: it diverges: early"),
        RunNote(at_s=2.0, topic="stop", text="the run was asked to stop"),
        RunNote(at_s=3.0, topic="added", text="trial 4: no"),
    ]
    assert _stopped_on_request(notes) == {TrialId(3): "it diverges: early"}
