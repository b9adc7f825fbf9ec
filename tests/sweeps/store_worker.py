"""A sweep in a process of its own: claims, "measures", commits, and says so. For the store tests.

Arguments: the results file, a log of measured points, the number of points, and a name.
"""

from __future__ import annotations

import os
import sys

from workbench.sweeps.store import Key, ResultStore, Row


def main(file, log, count, name):
    keys = [Key.of({"point": number}, "device", "kernel") for number in range(count)]
    with ResultStore(file) as store, open(log, "a", buffering=1) as measured:  # noqa: PTH123
        for key in store.missing(keys):
            if not store.claim(key, lease_s=0.05 if name == "killed" else 60):
                continue
            number = key.config_values["point"]
            measured.write(f"{number}\n")
            median = 1e-3 * number + 1e-6 * sum(range(2000)) / sum(range(2000))
            assert store.put(Row(key, n=3, median_s=median, provenance={"pid": os.getpid()}))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
