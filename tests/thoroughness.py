"""How many examples a property test tries: few by default, many with `--hypothesis-profile=explore`."""

from __future__ import annotations

from hypothesis import settings


def examples(default: int, explore: int) -> settings:
    is_thorough = settings.get_current_profile_name() == "explore"
    return settings(max_examples=explore if is_thorough else default)
