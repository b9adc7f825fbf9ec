"""Exercises whose answer is a Triton kernel: cases, fenced memory, launches, and the judge.

`case` and `block_tables` are plain Python; `memory`, `launch` and `solutions` need torch and
triton, and are imported when a kernel is checked.
"""
