"""Placement: which slots of which nodes each gang gets."""
