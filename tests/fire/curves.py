"""A training that misbehaves as its configuration says."""

from __future__ import annotations

import math


def learn(config: dict[str, float], iteration: int) -> dict[str, float]:
    """Learns towards `limit`; NaN, infinity, silence or an exception from iteration `breaks_at` on."""
    if iteration >= config["breaks_at"]:
        match int(config["how"]):
            case 0:
                return {"score": math.nan}
            case 1:
                return {"score": math.inf}
            case 2:
                return {"loss": 1.0}
            case 3:
                raise RuntimeError("the training broke")
            case _:
                pass
    return {"score": config["limit"] * (1 - math.exp(-iteration / config["pace"])) - 0.001 * (iteration % 3)}
