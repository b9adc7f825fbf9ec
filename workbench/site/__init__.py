"""The front door as a page: the same Python computes it, in the visitor's browser.

`tools/site.py` makes a folder of this one, the wheel, and Python for browsers (Pyodide).
"""
