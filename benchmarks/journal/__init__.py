"""What it costs to keep a journal."""
