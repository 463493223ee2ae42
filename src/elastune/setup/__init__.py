"""From a job to everything that a run needs: terms, plan, policy, prices, data."""
