"""Block tables of hybrid models: stage ids, apply them, gather a batch's rows, map its slots.

`groups`, `errors`, `host`, `batch` and `reference` are plain Python and numpy; `api` and what it
imports needs torch and triton. Importing this package imports neither.
"""
