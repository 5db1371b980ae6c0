# Sourced by the scripts here: sets MUSTER_PYTHON to a Python that is new enough.
# The checkout's own environment comes first, so that later runs do not depend on the PATH. Then the
# first one that was compiled with optimizations: programs take a seventh more of the processor on
# one that was compiled from source without them. Then any.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname -- "$here")
venv=${MUSTER_VENV:-$root/.venv}
is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
# Debian and its kin optimize in a way of their own, and keep the parts that bootstrap.py needs in
# packages of their own.
is_optimized='
import sys, sysconfig
from importlib.util import find_spec
flags = sysconfig.get_config_var("CONFIG_ARGS") or "--enable-optimizations"
is_fast = "--enable-optimizations" in flags or sys.base_prefix == "/usr"
is_whole = find_spec("venv") and find_spec("ensurepip")
sys.exit(sys.version_info < (3, 11) or not is_fast or not is_whole)'
find_python() { # CHECK CANDIDATE...
  check=$1
  shift
  for candidate in "$@"; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c "$check" >/dev/null 2>&1; then
      MUSTER_PYTHON=$candidate
      return
    fi
  done
  return 1
}
MUSTER_PYTHON=
candidates="python3 python3.13 python3.12 python3.11 python3.14 python /usr/bin/python3"
# shellcheck disable=SC2086 - names without blanks
find_python "$is_new_enough" "$venv/bin/python" ||
  find_python "$is_optimized" $candidates ||
  find_python "$is_new_enough" $candidates || {
  if command -v python3 >/dev/null 2>&1; then
    found="the newest one here is $(python3 -c 'import platform; print(platform.python_version())')"
  else
    found="there is none here"
  fi
  echo "error: Python 3.11 or newer is needed, and $found." >&2
  echo "hint: install it from python.org or your system's packages, then run this again" >&2
  exit 1
}
