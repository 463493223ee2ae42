"""Trainables of other frameworks: one small file per framework."""
