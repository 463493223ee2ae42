"""How fast the dashboard opens runs, what watching costs a run, and how fast quotes follow a slider."""
