"""From a job to a run: prepare, quote, simulate, run, resume, read."""
