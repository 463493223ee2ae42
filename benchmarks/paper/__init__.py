"""RubberBand's simulated experiments (section 6.1) and Tables 2 and 3, all planners side by side.

`python -m benchmarks.paper` runs all of them, `python -m benchmarks.paper job-size` one. `docs/rubberband.md`
sets the results beside the paper's.
"""
