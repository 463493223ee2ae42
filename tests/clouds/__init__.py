"""Whole runs on an EC2 that fails in every way it can, in virtual time: by a model of EC2, and by moto."""
