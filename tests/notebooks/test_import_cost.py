import json
import subprocess
import sys

HEAVY = ["torch", "plotly", "ipywidgets", "papermill", "nbformat", "nbclient", "IPython", "triton"]
PROBE = """
import json, sys
import workbench.notebooks as notebooks
notebooks.write_results, notebooks.run_notebook, notebooks.check_notebook_source
print(json.dumps(sorted(sys.modules)))
"""


def test_the_package_loads_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=300
    )
    assert [name for name in HEAVY if name in json.loads(done.stdout)] == []


def test_every_public_name_exists():
    from workbench import notebooks

    assert [name for name in notebooks.__all__ if not hasattr(notebooks, name)] == []
