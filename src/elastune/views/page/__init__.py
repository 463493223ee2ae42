"""What the page of a run shows, as plain data: for the dashboard, and kept beside large runs."""
