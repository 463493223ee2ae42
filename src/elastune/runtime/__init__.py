"""Runtimes carry out what the core commands and report what happens. They decide nothing about tuning."""
