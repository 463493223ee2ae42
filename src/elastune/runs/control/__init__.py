"""Changing a run from outside: the requests, the channel to its driver, the forecast of an extension."""
