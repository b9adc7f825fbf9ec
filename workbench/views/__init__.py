"""Pure functions from a plan to a figure, an HTML string or table rows."""
