"""Where it ends: what grows is quadrupled until a step takes too long (`python -m benchmarks.scale [name]`).

Every step runs in a process of its own, whose processor time and memory it measures. A slope of 1 means that
four times the work takes four times as long; n log n has slopes up to 1.1. Anything steeper is a defect.
"""
