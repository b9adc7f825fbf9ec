"""Explained start-up logs."""
