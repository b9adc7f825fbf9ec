"""The rules of the engine: pure Python, frozen dataclasses in and out; imports nothing of ours."""
