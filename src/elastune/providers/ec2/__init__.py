"""The EC2 provider: instances that join the driver's Ray cluster and end themselves with their lease."""
