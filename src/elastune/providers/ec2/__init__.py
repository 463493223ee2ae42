"""EC2 as a provider: instances that join the Ray cluster of the driver, and end when nobody wants them."""
