"""Prefix caching: how a prompt is cut into steps, which states are kept, what is found again."""
