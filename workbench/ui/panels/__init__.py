"""The tabs below the page figure."""
