"""Policies decide while a run goes on. Each one is a small file; all pass `tests/policies/contract.py`."""
