"""Search spaces, and the samplers that draw configurations from them."""
