"""`make test` installs a browser only where it may, and says so before it does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "ensure_chromium.sh"
APT = """#!/bin/bash
echo "$@" >> "$APT_CALLS"
case "$*" in *--simulate*) echo 'Inst chromium-common (1)'; echo 'Inst chromium (1)';; esac
"""


@pytest.fixture
def machine(tmp_path):
    """Return a PATH without a Chromium, whose apt-get only writes down how it is called."""
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    for name in ("bash", "mktemp", "rm", "sed", "paste", "tail", "env"):
        (tmp_path / name).symlink_to(shutil.which(name))
    for name, text in (("apt-get", APT), ("id", "#!/bin/bash\necho $WHO\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def ensure(machine, who, allowed=None):
    """Run the script as a user; return what it prints, and the calls of apt-get."""
    calls = machine / "calls"
    environment = {"PATH": str(machine), "APT_CALLS": str(calls), "WHO": str(who)}
    if allowed is not None:
        environment["WORKBENCH_INSTALL_CHROMIUM"] = allowed
    done = subprocess.run(
        [str(machine / "bash"), str(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**environment, "TMPDIR": os.environ.get("TMPDIR", str(machine))},
    )
    return done.stdout + done.stderr, calls.read_text() if calls.exists() else ""


@pytest.mark.parametrize(("who", "allowed"), [(0, "no"), (1000, "no"), (1000, None)])
def test_nothing_is_installed_where_that_is_not_allowed(machine, who, allowed):
    printed, calls = ensure(machine, who, allowed)
    assert not calls
    assert "the browser tests will be skipped" in printed
    assert "WORKBENCH_INSTALL_CHROMIUM" in printed


def test_what_is_installed_is_printed_first(machine):
    printed, calls = ensure(machine, who=0)
    assert "apt-get installs chromium-common chromium" in printed
    assert "WORKBENCH_INSTALL_CHROMIUM=no" in printed
    assert calls.splitlines()[-1].endswith("install -y chromium")
