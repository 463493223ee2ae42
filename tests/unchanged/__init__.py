"""The safety net of a restructuring: some hundred simulated experiments, before and after.

`python -m tests.unchanged --save before.json` on the tree as it is, then `python -m tests.unchanged --compare
before.json` on the changed one. A record holds the hash of the journal and what the commands print as JSON,
without the times, folders and run ids of the machine. `--only fire/` or `--limit 40` runs a part;
`--texts` compares sentences, too, which may be reworded otherwise. Keys that were renamed on purpose go to
`RENAMED` in `records.py`.
"""
