"""The policy `forecast`: the best model for the time and the money, by the ranks of the trials."""
