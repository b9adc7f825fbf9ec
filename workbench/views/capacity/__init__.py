"""Groups, memory, what fits and what is wasted."""
