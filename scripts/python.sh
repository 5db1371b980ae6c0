# Sourced by the scripts here: sets MUSTER_PYTHON to the first Python that is new enough.
# The checkout's own environment comes first, so that later runs do not depend on the PATH.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$here")
venv=${MUSTER_VENV:-$root/.venv}
MUSTER_PYTHON=
for candidate in "$venv/bin/python" python3 python3.13 python3.12 python3.11 python3.14 python; do
  if command -v "$candidate" >/dev/null 2>&1 &&
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    MUSTER_PYTHON=$candidate
    break
  fi
done
if [ -z "$MUSTER_PYTHON" ]; then
  if command -v python3 >/dev/null 2>&1; then
    found="the newest one here is $(python3 -c 'import platform; print(platform.python_version())')"
  else
    found="there is none here"
  fi
  echo "error: Python 3.11 or newer is needed, and $found." >&2
  echo "hint: install it from python.org or your system's packages, then run this again" >&2
  exit 1
fi
