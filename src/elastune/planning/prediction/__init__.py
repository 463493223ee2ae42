"""What a plan leads to: the execution model, as a graph and vectorised."""
