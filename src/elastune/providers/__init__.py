"""Providers rent machines to a run: the contract, and one file or folder per provider."""
