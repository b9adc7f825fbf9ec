"""Figures as pictures that need neither a script nor a network: SVG with alternative text."""
