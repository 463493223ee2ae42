"""What simulating a search takes, beside Syne Tune: `python -m benchmarks.simulation [name ...]`.

Syne Tune lives in an environment of its own, and its interpreter is given:

    python3 -m venv /tmp/syne
    /tmp/syne/bin/pip install syne-tune==0.14.2 scikit-learn huggingface_hub
    python -m benchmarks.simulation --peer-python /tmp/syne/bin/python

It cannot share our process: 0.14.2 is the last version with the promoting kind of ASHA (that of 0.15 and 0.16
only stops trials), and it needs numpy below 1.27. Its extra `blackbox-repository` would bring xgboost, and
that a library for CUDA; of the extra only the two packages above are imported.
"""
