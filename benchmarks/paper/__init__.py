"""RubberBand's experiments: the simulated ones (section 6.1) and Tables 1 to 3, all planners side by side.

`python -m benchmarks.paper` runs all that are simulated, `python -m benchmarks.paper job-size` one, `real`
executes Table 2 in real processes. `docs/rubberband.md` sets the results beside the paper's.
"""
