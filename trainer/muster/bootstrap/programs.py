"""The shell programs that are run on a machine. Pure.

Everything of an agent is in ~/.muster/node: its environments `env-…`, of which `current` is one; its
home; its settings; and, without systemd, its log and the file with its process ID. The one file
elsewhere is the unit of systemd.
"""

from __future__ import annotations

import shlex

UNIT = "muster-agent.service"
STOP_S = 30
MAX_LOG_BYTES = 10_000_000
"""A longer log is set aside when the agent starts."""
_PRELUDE = f"""base=$HOME/.muster/node
units=${{XDG_CONFIG_HOME:-$HOME/.config}}/systemd/user
unit=$units/{UNIT}
[ -n "$XDG_RUNTIME_DIR" ] || export XDG_RUNTIME_DIR=/run/user/$(id -u)
begun() {{ # when a process has begun; nothing if it is gone
  set -- $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null)
  [ "$1" = Z ] || echo "${{20}}"
}}
alive() {{
  [ -f "$base/agent.pid" ] && read -r pid at < "$base/agent.pid" && [ -n "$at" ] &&
    [ "$(begun "$pid")" = "$at" ]
}}
running() {{
  if [ -f "$unit" ]; then systemctl --user is-active -q {UNIT}; else alive; fi
}}
end() {{
  if [ -f "$unit" ]; then systemctl --user stop {UNIT} || return 1; fi
  if alive; then
    kill -TERM "$pid"
    for _ in $(seq {STOP_S * 5}); do alive || break; sleep 0.2; done
    if alive; then echo "the agent, process $pid, does not end" >&2; return 1; fi
  fi
  rm -f "$base/agent.pid"
}}
"""
_UNIT_TEXT = """[Unit]
Description=Muster agent
After=network-online.target

[Service]
EnvironmentFile=%h/.muster/node/settings
ExecStart=%h/.muster/node/current/bin/muster-agent run
Restart=always
RestartSec=5
KillMode=process
Delegate=yes
DelegateSubgroup=muster-agent

[Install]
WantedBy=default.target
"""


def probe(python: str = "") -> str:
    """Return the program that prints what `machine.read_machine` reads.

    python: the interpreter to look at; "" for those on the PATH.
    """
    names = shlex.quote(python) if python else "python3 python3.14 python3.13 python3.12 python3.11"
    return f"""{_PRELUDE}
say() {{ printf '%s=%s\\n' "$1" "$2"; }}
say system "$(uname -s)"
say name "$(uname -n)"
say user "$(id -un)"
say home "$HOME"
for name in {names}; do
  path=$(command -v "$name" 2>/dev/null) || continue
  version=$("$path" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
  say python "$path $version $("$path" -c 'import ensurepip, venv; print("venv")' 2>/dev/null)"
done
for path in "$(command -v uv 2>/dev/null)" "$HOME/.local/bin/uv" "$HOME/.cargo/bin/uv"; do
  if [ -x "$path" ]; then say uv "$path"; break; fi
done
say free_kib "$(df -Pk "$HOME" 2>/dev/null | awk 'NR == 2 {{print $4}}')"
say systemd "$(systemctl --user is-system-running 2>/dev/null)"
say linger "$(loginctl show-user "$(id -un)" -p Linger --value 2>/dev/null)"
say nvidia "$(command -v nvidia-smi 2>/dev/null)"
[ -f "$base/current/digest" ] && say digest "$(cat "$base/current/digest")"
[ -f "$base/name" ] && say node "$(cat "$base/name")"
[ -f "$base/home/credential.json" ] && say joined yes
running && say running yes
[ -n "$(find "$base/home/storage" -type f -print -quit 2>/dev/null)" ] &&
  say stored_kib "$(du -sk "$base/home/storage" | cut -f1)"
[ -f "$base/settings" ] && sed 's/^/setting=/' "$base/settings"
true"""


def unpack() -> str:
    """Return the program that unpacks an archive of wheels from its standard input."""
    return (
        'umask 077; rm -rf "$HOME/.muster/node/wheels"; mkdir -p "$HOME/.muster/node/wheels" && '
        'tar -xf - -C "$HOME/.muster/node/wheels"'
    )


def install(*, digest: str, wheel: str, extras: str, python: str, uv: str, is_offline: bool) -> str:
    """Return the program that makes the environment of this wheel, if it is not there, and makes it
    the current one. One that fails leaves nothing behind. Environments that no process uses any more go.
    """
    version = shlex.quote(python or ">=3.11")
    what = f'"muster-train[{extras}] @ file://$base/wheels/{wheel}"'
    where = '--no-index --find-links "$base/wheels"' if is_offline else ""
    if uv:
        tool = shlex.quote(uv)
        make = f'{tool} venv -q --python {version} "$env"'
        fill = f'{tool} pip install -q --python "$env/bin/python" {where} {what}'
    else:
        make = f'{shlex.quote(python)} -m venv "$env"'
        fill = f'"$env/bin/python" -m pip install -q --disable-pip-version-check {where} {what}'
    return f"""{_PRELUDE}
umask 077
export UV_CACHE_DIR="$base/cache"
env=$base/env-{digest[:12]}
if [ ! -f "$env/digest" ]; then
  rm -rf "$env"
  if ! {{ {make} && {fill} && echo {digest} > "$env/digest"; }} > "$base/install.log" 2>&1; then
    tail -n 12 "$base/install.log" >&2
    rm -rf "$env" "$base/wheels" "$base/cache"
    exit 1
  fi
fi
rm -rf "$base/wheels" "$base/cache" "$base/install.log"
ln -sfn "$env" "$base/current.new" && mv -T "$base/current.new" "$base/current" || exit 1
for old in "$base"/env-*; do
  [ "$old" = "$env" ] || grep -lqsF "$old/" /proc/[0-9]*/cmdline || rm -rf "$old"
done"""


def reach(url: str) -> str:
    """Return the program that looks whether the machine reaches the server."""
    code = f"import urllib.request as r; r.urlopen({url + '/healthz'!r}, timeout=10).read(1)"
    return f'{_PRELUDE}"$base/current/bin/python" -c {shlex.quote(code)}'


def configure(*, node: str, settings: str, token: str) -> str:
    """Return the program that writes the settings and, unless it is empty, the join token."""
    return f"""{_PRELUDE}
umask 077
cat > "$base/settings" <<'MUSTER_END' || exit 1
{settings}MUSTER_END
cat > "$base/join-token" <<'MUSTER_END' || exit 1
{token}
MUSTER_END
printf '%s\\n' {shlex.quote(node)} > "$base/name\""""


def start(*, has_user_units: bool, has_linger: bool) -> str:
    """Return the program that starts the agent, or starts it again: what runs there goes on. It prints
    `linger` if the agent would end when its user logs out."""
    if has_user_units:
        linger = (
            "" if has_linger else 'loginctl enable-linger "$(id -un)" 2>/dev/null || echo linger\n'
        )
        return f"""{_PRELUDE}
mkdir -p "$units" && cat > "$unit" <<'MUSTER_END' || exit 1
{_UNIT_TEXT}MUSTER_END
{linger}systemctl --user daemon-reload && systemctl --user enable -q {UNIT} &&
  systemctl --user restart {UNIT}"""
    return f"""{_PRELUDE}
end || exit 1
umask 077
log=$base/agent.log
[ "$(wc -c < "$log" 2>/dev/null || echo 0)" -gt {MAX_LOG_BYTES} ] && mv "$log" "$log.1"
set -a; . "$base/settings"; set +a
cd /
setsid nohup "$base/current/bin/muster-agent" run >> "$log" 2>&1 < /dev/null &
echo "$! $(begun $!)" > "$base/agent.pid\""""


def look() -> str:
    """Return the program that says how the agent fares: 0 while it runs, else its last words."""
    return f"""{_PRELUDE}
running && exit 0
if [ -f "$unit" ]; then journalctl --user -u {UNIT} -n 12 --no-pager -o cat >&2
else tail -n 12 "$base/agent.log" >&2; fi
exit 1"""


def forget_token() -> str:
    """Return the program that empties the join token, which has been used."""
    return f'{_PRELUDE}: > "$base/join-token"'


def stop() -> str:
    """Return the program that ends the agent for good."""
    return f"""{_PRELUDE}
end || exit 1
if [ -f "$unit" ]; then
  systemctl --user disable -q {UNIT}
  rm -f "$unit"
  systemctl --user daemon-reload
fi"""


def remove() -> str:
    """Return the program that removes every file of the agent."""
    return f"""{_PRELUDE}
rm -rf "$base" || exit 1
rmdir "$HOME/.muster" "$units" 2>/dev/null
true"""
