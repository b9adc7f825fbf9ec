"""Pages that compute in a visitor's browser: the front door, and the log doctor.

`tools/site.py` makes a folder of them, the bytecode of this package, and Python for browsers
(Pyodide).
"""

import os

# A page has no network: config.json of a hub id is pasted.
os.environ["HF_HUB_OFFLINE"] = "1"
