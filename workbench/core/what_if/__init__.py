"""Around a plan: what may be picked, what one change does, and what another version decides."""
