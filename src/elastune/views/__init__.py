"""Output for people: tables, the live screen, pages and figures."""
