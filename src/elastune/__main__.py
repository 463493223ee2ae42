"""`python -m elastune` is the same as `elastune`."""

from elastune.cli import main

if __name__ == "__main__":
    main()
