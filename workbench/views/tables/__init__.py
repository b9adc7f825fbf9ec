"""Block tables and slots of a step."""
