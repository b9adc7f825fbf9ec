"""Sweeps: many scenarios resolved, or many kernel configurations measured."""
