"""What prefix caching reuses."""
