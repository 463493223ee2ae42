"""Tables and texts for the terminal."""
