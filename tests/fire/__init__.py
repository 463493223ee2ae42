"""Trial by fire: whole experiments with random jobs, policies and faults, checked after every event."""
