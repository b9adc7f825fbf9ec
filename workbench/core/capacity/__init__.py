"""Capacity: how many blocks there are, what requests take of them, and what is wasted."""
