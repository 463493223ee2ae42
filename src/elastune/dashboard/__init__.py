"""`elastune dashboard`: runs in a browser, live and past, quotes to play with, and requests to a run."""
