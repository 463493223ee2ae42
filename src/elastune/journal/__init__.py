"""The journal: durable events and commands of a run, their JSON lines, replay, and the folders of runs."""
