"""Imported by the process from which the workers of the tests are forked."""

from elastune.training.running import warm_up

warm_up()
