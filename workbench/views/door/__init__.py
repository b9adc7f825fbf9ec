"""The regions of the front door as HTML: pure functions of plans, answers and scenarios."""
