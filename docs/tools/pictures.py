"""The pictures of the pages about concepts and AWS: `python -m docs.tools.pictures` redraws them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "img" / "concepts"
INK, GREY, PALE, WHITE = "#37474f", "#90a4ae", "#eceff1", "#ffffff"
COLOURS = ("#ef6c00", "#5c9ead", "#7e9f5b", "#a07cb0", "#c9a227", "#6d8196")
BEST = COLOURS[0]


def text(x: float, y: float, words: str, *, size: int = 14, anchor: str = "middle", colour: str = INK) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{words}</text>'
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = WHITE,
    edge: str = INK,
    dashed: bool = False,
) -> str:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="4" fill="{fill}" stroke="{edge}" stroke-width="1.5"{dash}/>'


def line(x1: float, y1: float, x2: float, y2: float, *, colour: str = INK, style: str = "") -> str:
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {ends} stroke="{colour}" stroke-width="1.8" {style}/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return line(x1, y1, x2, y2, style='marker-end="url(#tip)"')


DASHED = 'stroke-dasharray="6 4"'


def slots_nodes_gangs() -> Iterable[str]:
    """Two nodes of four slots; a gang of four, one of two, two of one."""
    owners = ((0, 0, 0, 0), (1, 1, 2, 3))
    for n, slots in enumerate(owners):
        x = 30 + n * 340
        yield box(x, 40, 310, 120, fill=PALE)
        yield text(x + 155, 28, f"node {n + 1}: $12.24 an hour")
        for s, owner in enumerate(slots):
            yield box(x + 15 + s * 72, 60, 64, 60, fill=COLOURS[owner])
            yield text(x + 47 + s * 72, 95, "slot", colour=WHITE)
        for owner in sorted(set(slots)):
            mine = [s for s, each in enumerate(slots) if each == owner]
            left, right = x + 15 + mine[0] * 72, x + 79 + mine[-1] * 72
            yield line(left, 130, right, 130, colour=COLOURS[owner])
            words = f"trial {owner + 1}: a gang of {len(mine)}" if len(mine) > 1 else f"trial {owner + 1}"
            yield text((left + right) / 2, 148, words, size=12)


def stages() -> Iterable[str]:
    """Successive Halving: trials, iterations and nodes of each stage."""
    plan = ((32, 1, 8, 150), (10, 3, 5, 150), (3, 9, 3, 170), (1, 37, 2, 200))
    x = 60.0
    for number, (trials, iterations, nodes, width) in enumerate(plan, start=1):
        height = nodes * 15
        yield box(x, 190 - height, width - 8, height, fill=BEST if number == 4 else COLOURS[1], edge=WHITE)
        yield text(x + width / 2 - 4, 182 - height, f"{nodes} nodes", size=13)
        yield text(x + width / 2 - 4, 212, f"stage {number}")
        yield text(x + width / 2 - 4, 231, f"{trials} trial{'s' * (trials > 1)}", size=13)
        yield text(x + width / 2 - 4, 248, f"{iterations} more iteration{'s' * (iterations > 1)}", size=13)
        x += width
        yield line(x - 4, 40, x - 4, 200, colour=GREY, style=DASHED)
        if number < 4:
            yield text(x - 4, 32, "barrier", size=12, colour=GREY)
    yield text(x - 4, 32, "done", size=12, colour=GREY)
    yield line(60, 190, x, 190)


def quote() -> Iterable[str]:
    """A quote: the distribution of the finish time, its mean, its quantile, and the deadline."""

    def height(at: float) -> float:
        return 120 * math.exp(-(((at - 330) / 75) ** 2) / 2)

    points = [(x, 170 - height(x)) for x in range(90, 620, 5)]
    sure = " ".join(f"{x},{y:.1f}" for x, y in points if x <= 455)
    rest = " ".join(f"{x},{y:.1f}" for x, y in points if x >= 455)
    yield f'<polygon points="90,170 {sure} 455,170" fill="{COLOURS[1]}" opacity="0.8"/>'
    yield f'<polygon points="455,170 {rest} 620,170" fill="{BEST}" opacity="0.9"/>'
    yield arrow(60, 170, 680, 170)
    yield text(680, 190, "finish time", anchor="end", size=13)
    yield line(330, 42, 330, 170, style=DASHED)
    yield text(330, 32, "mean: expected")
    yield line(455, 70, 455, 170)
    yield text(460, 82, "95% quantile: promised", anchor="start")
    yield line(500, 105, 500, 176, colour=BEST)
    yield text(506, 117, "deadline: the quantile must fit", anchor="start", colour=BEST)
    yield text(268, 160, "95 of 100 runs", colour=WHITE, size=13)


def core_and_runtimes() -> Iterable[str]:
    """One core, two runtimes, one journal."""
    yield box(255, 40, 210, 110, fill=PALE)
    yield text(360, 70, "core + policy", size=16)
    yield text(360, 94, "decides; uses no clock,", size=12)
    yield text(360, 110, "no disk and no network", size=12)
    for x, name, first, second in (
        (20, "simulated runtime", "a virtual clock,", "hours in milliseconds"),
        (520, "Ray runtime", "real processes,", "nodes come and go"),
    ):
        yield box(x, 40, 180, 110)
        yield text(x + 90, 70, name, size=16)
        yield text(x + 90, 94, first, size=12)
        yield text(x + 90, 110, second, size=12)
    for left, right in ((200, 255), (520, 465)):
        yield arrow(left, 75, right, 75)
        yield arrow(right, 120, left, 120)
        yield text((left + right) / 2, 66, "events", size=12)
        yield text((left + right) / 2, 137, "commands", size=11)
    yield box(255, 205, 210, 50, fill=COLOURS[2], edge=COLOURS[2])
    yield text(360, 227, "journal", size=16, colour=WHITE)
    yield text(360, 245, "every event, every command", size=12, colour=WHITE)
    yield arrow(360, 150, 360, 203)
    yield text(480, 227, "status, report, resume,", anchor="start", size=12)
    yield text(480, 243, "audit: all replay it", anchor="start", size=12)


def last_call() -> Iterable[str]:
    """Before the deadline: the last iteration that fits, the save, and the iteration that is not started."""
    yield arrow(40, 150, 760, 150)
    yield text(760, 170, "time", anchor="end", size=13)
    for x, width in ((50, 115), (170, 115), (290, 115)):
        yield box(x, 80, width, 45, fill=COLOURS[1], edge=WHITE)
        yield text(x + width / 2, 107, "iteration", colour=WHITE)
    yield box(410, 80, 170, 45, dashed=True, edge=GREY)
    yield text(477, 100, "would end too late:", size=12, colour=GREY)
    yield text(477, 115, "not started", size=12, colour=GREY)
    yield line(550, 20, 550, 160)
    yield text(542, 40, "last call", anchor="end")
    yield box(552, 30, 70, 40, fill=COLOURS[2], edge=WHITE)
    yield text(587, 55, "save", colour=WHITE)
    yield line(650, 20, 650, 160, colour=BEST)
    yield text(656, 45, "deadline: the", anchor="start", colour=BEST)
    yield text(656, 62, "model is on disk", anchor="start", colour=BEST)


def on_aws() -> Iterable[str]:
    """What runs where on AWS: your head instance, and nodes that are launched and terminated."""
    yield box(20, 85, 130, 70)
    yield text(85, 115, "your laptop", size=15)
    yield text(85, 136, "watches, may sleep", size=12)
    yield box(215, 20, 470, 210, fill=PALE, edge=GREY, dashed=True)
    yield text(450, 43, "your VPC: a security group open to its members only", size=13, colour=GREY)
    yield box(235, 60, 180, 120)
    yield text(325, 86, "the head", size=16)
    yield text(325, 108, "Ray's head", size=13)
    yield text(325, 128, "elastune run: plans,", size=13)
    yield text(325, 145, "journal, leases", size=13)
    yield text(325, 169, "yours, small", size=12, colour=GREY)
    yield box(500, 60, 165, 42, edge=GREY, dashed=True)
    yield text(582, 78, "not needed now:", size=13, colour=GREY)
    yield text(582, 94, "does not exist", size=12, colour=GREY)
    for y in (118, 176):
        yield box(500, y, 165, 42, fill=COLOURS[1], edge=GREY)
        yield text(582, y + 18, "a node: workers", size=13, colour=WHITE)
        yield text(582, y + 34, "and a watchdog", size=12, colour=WHITE)
    yield arrow(415, 115, 498, 135)
    yield arrow(415, 150, 498, 190)
    yield text(457, 147, "Ray", size=12)
    yield arrow(150, 120, 233, 120)
    yield text(182, 110, "SSM", size=12)
    services = (
        (235, "EC2", "launch, list, end, tag"),
        (410, "Secrets Manager", "Ray's token"),
        (560, "S3", "checkpoints"),
    )
    for x, name, what in services:
        width = {"EC2": 165, "Secrets Manager": 140, "S3": 110}[name]
        yield box(x, 262, width, 52, fill=COLOURS[2], edge=COLOURS[2])
        yield text(x + width / 2, 284, name, colour=WHITE)
        yield text(x + width / 2, 303, what, size=12, colour=WHITE)
    yield arrow(317, 180, 317, 260)
    yield arrow(400, 180, 445, 260)
    yield arrow(530, 218, 510, 260)
    yield arrow(625, 218, 620, 260)


PICTURES = {
    "aws": (on_aws, 705, 335),
    "slots": (slots_nodes_gangs, 700, 175),
    "stages": (stages, 750, 260),
    "quote": (quote, 720, 200),
    "core": (core_and_runtimes, 720, 270),
    "last-call": (last_call, 780, 180),
}


def draw(name: str) -> str:
    parts, width, height = PICTURES[name]
    tip = (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    ground = f'<rect width="{width}" height="{height}" fill="{WHITE}"/>'
    return "\n".join([head, tip, ground, *parts(), "</svg>", ""])


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in PICTURES:
        (FOLDER / f"{each}.svg").write_text(draw(each), encoding="utf-8")
