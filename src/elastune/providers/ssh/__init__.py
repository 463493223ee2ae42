"""The SSH provider: nodes on machines that people own."""
