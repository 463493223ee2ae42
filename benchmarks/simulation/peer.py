"""Syne Tune's simulator on the same search. A script for its own interpreter: it imports nothing of ours.

Takes a table of curves and searches as JSON, answers with a JSON list on its last line. Only `Tuner.run`
counts as the search. It has the fastest settings found: no sleep, no printing in between, the tuner not
saved, results written once at the end, rungs told to the backend so that it replays no epoch beyond them.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import os
import sys
import tempfile
import time
from typing import Any

NEVER_S = 1e9
RESOURCE, LIMIT, ELAPSED = "epoch", "epochs", "elapsed_s"


def run(table: str, search: dict[str, Any]) -> dict[str, float]:
    import numpy as np  # noqa: PLC0415
    import pandas as pd  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415
    from syne_tune import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        StoppingCriterion,
        Tuner,
    )
    from syne_tune.backend.simulator_backend.simulator_callback import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        SimulatorCallback,
    )
    from syne_tune.blackbox_repository import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        UserBlackboxBackend,
    )
    from syne_tune.blackbox_repository.blackbox_tabular import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        BlackboxTabular,
    )
    from syne_tune.config_space import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        randint,
        uniform,
    )
    from syne_tune.optimizer.legacy_baselines import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        ASHA,
    )

    metric, epochs = search["metric"], search["max_epochs"]
    start = time.process_time()
    with np.load(table) as arrays:
        configs = pd.DataFrame(arrays["hp"], columns=[str(name) for name in arrays["hp_names"]])
        losses = arrays[metric][:, :epochs]
    elapsed = np.broadcast_to(search["epoch_s"] * np.arange(1, epochs + 1), losses.shape)
    space = {name: uniform(float(configs[name].min()), float(configs[name].max())) for name in configs}
    blackbox = BlackboxTabular(
        configs,
        space,
        {RESOURCE: randint(1, epochs)},
        np.stack([losses, elapsed], axis=-1)[:, None],
        objectives_names=[metric, ELAPSED],
    )
    callback = SimulatorCallback()
    tuner = Tuner(
        trial_backend=UserBlackboxBackend(
            blackbox,
            elapsed_time_attr=ELAPSED,
            max_resource_attr=LIMIT,
            seed=0,
            tuner_sleep_time=search["poll_s"],
        ),
        scheduler=ASHA(
            {**space, LIMIT: epochs},
            metric=metric,
            mode="min",
            resource_attr=RESOURCE,
            max_resource_attr=LIMIT,
            type="promotion",
            grace_period=1,
            reduction_factor=search["eta"],
            random_seed=search["seed"],
            search_options={
                "debug_log": False,
                "restrict_configurations": blackbox.all_configurations(),
                "allow_duplicates": search["replace"],
            },
        ),
        # It stops once more than this number were started.
        stop_criterion=StoppingCriterion(max_num_trials_started=search["trials"] - 1),
        wait_trial_completion_when_stopping=True,
        n_workers=search["workers"],
        sleep_time=0,
        results_update_interval=NEVER_S,
        print_update_interval=NEVER_S,
        callbacks=[callback],
        save_tuner=False,
    )
    prepare_s = time.process_time() - start
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    tuner.run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return {
        "trials": len({result["trial_id"] for result in callback.results}),
        "epochs": len(callback.results),
        "prepare_s": prepare_s,
        "wall_s": wall,
        "processor_s": processor,
        "best": min(result[metric] for result in callback.results),
    }


def main(table: str, searches: list[dict[str, Any]]) -> list[dict[str, float]]:
    """The first search runs twice: what happens only once in a process should not count."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.environ["SYNETUNE_FOLDER"] = folder
        run(table, searches[0])
        return [run(table, search) for search in searches]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
