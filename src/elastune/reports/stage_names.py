"""What a stage is called: by its number, and by its bracket where there are several."""

from __future__ import annotations

from collections.abc import Sequence

from elastune.runs.standing import StageStanding


def stage_name(stage: StageStanding, brackets: Sequence[str], *, long: bool = False) -> str:
    """`2`, or `3.2` for the second stage of bracket 3; `long`: `stage 2`. A stage that goes on has a mark."""
    number = f"{stage.stage + 1}" if stage.is_over else f"{stage.stage + 1}…"
    if stage.bracket < len(brackets) and len(brackets) > 1:
        number = f"{brackets[stage.bracket].removeprefix('bracket ')}.{number}"
    elif stage.bracket:
        number = f"{stage.bracket}.{number}"
    return f"stage {number}" if long else number
