"""What a run did, from its events: nodes, gangs, trials, cost, status. One recorder, which all views read."""
