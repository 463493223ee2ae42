"""`python -m elastune` is the same as `elastune`."""

from elastune.cli.app import main

if __name__ == "__main__":
    main()
