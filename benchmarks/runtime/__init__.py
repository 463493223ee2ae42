"""What a real run takes, beside Ray Tune: `python -m benchmarks.runtime [--peer-python PATH] [name ...]`.

Ray Tune needs packages that Elastune does not. Both run in one environment, on one and the same Ray, whose
interpreter is given:

    python3 -m venv /tmp/tune
    PIP_CONSTRAINT=constraints.txt /tmp/tune/bin/pip install 'ray[tune]==2.60.0' torch==2.13.0 -e '.[ray]'
    python -m benchmarks.runtime --peer-python /tmp/tune/bin/python

Without it Elastune runs alone, and there are no ratios.
"""
