#!/bin/sh
# What the aarch64 preset needs: Debian's cross compiler, qemu, and the libraries for arm64 beside the system's own.
set -eu

here=$(dirname "$0")
"$here"/install-packages.sh gcc cmake ninja-build pkg-config gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
if ! dpkg --print-foreign-architectures | grep -qx arm64; then
    if [ "$(id -u)" = 0 ]; then dpkg --add-architecture arm64; else sudo dpkg --add-architecture arm64; fi
fi
"$here"/install-packages.sh libjansson-dev:arm64 libpcre2-dev:arm64 libzip-dev:arm64 libssl-dev:arm64 libxxhash-dev:arm64 \
    libpopt-dev:arm64 libcmocka-dev:arm64
