"""What launches or simulates, and what it returns."""
