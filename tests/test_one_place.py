"""Rules that live in one place: the source is walked for code that repeats them elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_house import modules, nodes_of

pytestmark = pytest.mark.xdist_group("source")  # parsed once

# Who may name a kind of billing: its definition, the rule, the job's key and the provider's terms with their
# defaults; and the meter of the simulated provider, an independent second opinion.
BILLING = {
    "model.cluster",
    "model.billing",
    "job.cluster",
    "providers.simulated",
}


def texts(tree: ast.Module) -> Iterator[str]:
    return (
        node.value
        for node in nodes_of(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def names_a_kind_of_billing(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Billing"
        for node in nodes_of(tree)
    )


def test_only_the_billing_module_knows_what_a_node_costs() -> None:
    assert {name for name, tree in modules().items() if names_a_kind_of_billing(tree)} == BILLING


def test_only_the_journal_knows_the_text_of_its_lines() -> None:
    marks = ('"type":', '"rows":', '"at_s":')
    found = {
        name
        for name, tree in modules().items()
        if any(mark in text for text in texts(tree) for mark in marks)
    }
    assert found == {"journal.codec", "journal.lines"}
