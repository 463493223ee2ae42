"""The Slurm provider: nodes are jobs of a Slurm cluster."""
