"""Nodes on other machines that join a Ray head of this run: what Slurm, SSH and others share."""
