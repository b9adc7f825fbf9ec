"""Limits on what input from outside may make the program open, write, start or connect to."""
