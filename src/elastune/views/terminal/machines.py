"""What the providers of a job offer now, for the terminal."""

from __future__ import annotations

from rich.console import RenderableType

from elastune.setup.machine_offers import MachineOffer, MachineOffers
from elastune.views.table import Column, Tone, make_table, stacked, terminal_table
from elastune.views.terminal.policy import format_price
from elastune.wording import format_duration


def render_machines(found: MachineOffers) -> RenderableType:
    offers = found.offers
    columns: list[Column[MachineOffer]] = [
        Column("kind", lambda offer: offer.kind, is_text=True, tone=Tone.STRONG),
        Column("provider", lambda offer: offer.provider, is_text=True),
        Column("slots", lambda offer: offer.slots, str),
        Column("most nodes", lambda offer: offer.max_nodes, str),
        Column("per hour", lambda offer: offer.usd_per_hour, format_price),
        Column("wait", lambda offer: _seconds(offer, offer.wait_s), format_duration),
        Column("boot", lambda offer: _seconds(offer, offer.boot_s), format_duration),
    ]
    if any(offer.interruptions_per_hour for offer in offers):
        columns.append(Column("lost/h", lambda offer: offer.interruptions_per_hour, lambda rate: f"{rate:g}"))
    sources = [f"{offer.kind}: {offer.price_source}" for offer in offers if offer.price_source]
    problems = [f"{offer.kind}: {offer.problem}" for offer in offers if offer.problem]
    table = make_table(columns, offers, tone=_tone, title="Machines", notes=(*sources, *problems))
    return stacked([terminal_table(table)])


def _seconds(offer: MachineOffer, known: float | None) -> float | str | None:
    return "not known" if known is None and not offer.problem else known


def _tone(offer: MachineOffer) -> Tone:
    return Tone.MUTED if offer.problem else Tone.PLAIN
