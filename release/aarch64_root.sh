#!/bin/sh
# `release/aarch64_root.sh FOLDER [bookworm|trixie]`: Debian's Python for arm64, unpacked into a new folder and not
# installed, for `RINGTREE_AARCH64_ROOT=FOLDER make test-wheels`, which runs it under qemu-user-static. bookworm has
# Python 3.11, trixie 3.13. Needs apt, dpkg-deb, and a network.
set -eu
folder=$1
suite=${2:-bookworm}
case $suite in bookworm) python=python3.11 ssl=libssl3 ;; trixie) python=python3.13 ssl=libssl3t64 ;; esac
mkdir -p "$folder/apt/state/lists/partial" "$folder/apt/archives/partial"
cd "$folder"
: >apt/status
echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >apt/sources.list
apt() {
  apt-get -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= -o Dir::State="$PWD/apt/state" \
    -o Dir::State::status="$PWD/apt/status" -o Dir::Cache="$PWD/apt" -o Dir::Etc::sourcelist="$PWD/apt/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -qq "$@"
}
apt update
apt download libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libuuid1 libbz2-1.0 liblzma5 "$ssl" "$python-minimal" \
  "lib$python-minimal" "lib$python-stdlib"
for package in *.deb; do dpkg-deb -x "$package" .; done
[ -e lib ] || ln -s usr/lib lib
rm -r apt ./*.deb
