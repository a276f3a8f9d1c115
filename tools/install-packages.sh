#!/bin/sh
# Installs the Debian packages named, if any is missing. Says what to do where it cannot.
set -eu

missing=""
if command -v dpkg-query > /dev/null 2>&1; then
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2> /dev/null | grep -q 'ok installed' || missing="$missing $p"
    done
    [ -z "$missing" ] && exit 0
else
    echo "not a Debian system: the packages that winnow builds with are named in README.md" >&2
    exit 0
fi

sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null 2>&1 || {
        echo "missing packages:$missing (install them as root, sudo is not here)" >&2
        exit 1
    }
    sudo=sudo
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086
if ! { $sudo apt-get update && $sudo apt-get install -y --no-install-recommends $missing; } > "$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    exit 1
fi
rm -f "$log"
