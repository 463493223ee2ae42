"""The functions behind the command line; `elastune.plan`, `elastune.tune` and the others live here."""
