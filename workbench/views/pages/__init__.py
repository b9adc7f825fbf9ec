"""Both pages to scale, block sizes over backends, and layouts as text."""
