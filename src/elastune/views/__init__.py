"""What people look at: tables, the live screen, pages and figures."""
