#!/usr/bin/env bash
# Makes sure that a Chromium is on PATH for the browser tests.
# WORKBENCH_INSTALL_CHROMIUM: "yes" (default) lets root install it with apt-get, "sudo" any user
# with sudo, "no" none. Always succeeds: without a Chromium it prints the reason, and the browser
# tests are skipped.
set -uo pipefail

runs() { "$1" --version >/dev/null 2>&1; }

give_up() {
    echo "Chromium: $1; the browser tests will be skipped." >&2
    exit 0
}

for name in chromium chromium-browser google-chrome; do
    if runs "$name"; then
        echo "Chromium: $("$name" --version 2>/dev/null)"
        exit 0
    fi
done

wanted=${WORKBENCH_INSTALL_CHROMIUM:-yes}
[ "$wanted" != no ] || give_up "not installed, and WORKBENCH_INSTALL_CHROMIUM=no forbids installing it"
command -v apt-get >/dev/null || give_up "not installed, and there is no apt-get to install it"
if [ "$(id -u)" -eq 0 ]; then
    as_root=()
elif [ "$wanted" = sudo ]; then
    as_root=(sudo -n)
else
    give_up "not installed, and installing it needs root ('sudo apt-get install chromium', or \
WORKBENCH_INSTALL_CHROMIUM=sudo)"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq \
        -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1
}
echo "Chromium: not installed. The browser tests need it; WORKBENCH_INSTALL_CHROMIUM=no skips them."
install update || give_up "apt-get update failed: $(tail -n 1 "$log")"
install install --simulate chromium || give_up "apt-get has no chromium: $(tail -n 1 "$log")"
echo "Chromium: apt-get installs $(sed -n 's/^Inst \([^ ]*\).*/\1/p' "$log" | paste -sd ' ')"
install install -y chromium || give_up "apt-get failed: $(tail -n 1 "$log")"
runs chromium || give_up "apt-get installed a 'chromium' that does not run"
echo "Chromium: $(chromium --version 2>/dev/null)"
