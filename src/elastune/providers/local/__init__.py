"""The local provider: Ray nodes on this machine that come and go exactly as asked."""
