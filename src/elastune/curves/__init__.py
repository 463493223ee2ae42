"""Where the metrics of a simulated run come from: formulas, recorded curves, functions of the user."""
