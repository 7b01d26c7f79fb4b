#!/bin/bash
# The tests that need torch, under the torch of a Debian release: sid has a newer one than PyPI's wheel that other tests
# pin, without CUDA. Needs root and mmdebstrap. usage: debian.sh RELEASE FOLDER [options of pytest]
set -euo pipefail
# In a mount namespace of its own: what is mounted below is gone with the last process, however it ends.
[ "${MOUNTS:-}" = own ] || MOUNTS=own exec unshare --mount "$0" "$@"
release=$1 root=$(realpath -m "$2"); shift 2
packages=python3-torch,python3-venv,python3-pip,python3-dev,python3-numpy,g++,cmake,ninja-build,make,ca-certificates
if [ ! -e "$root/ready" ]; then
  mmdebstrap --aptopt='Acquire::Check-Valid-Until "false"' --variant=minbase --include=$packages \
    "$release" "$root" http://deb.debian.org/debian
  touch "$root/ready"
fi
# pip inside finds packages as pip outside does.
for file in /etc/resolv.conf /etc/pip.conf ~/.config/pip/pip.conf "${PIP_CERT:-}"; do
  [ -f "$file" ] && install -D "$file" "$root/$file"
done
rm -rf "$root/ringtree" && mkdir "$root/ringtree"
git ls-files -z | tar --null -T - -c | tar x -C "$root/ringtree"
for at in proc dev sys; do mount --rbind "/$at" "$root/$at"; done
chroot "$root" bash -euc '
  export HOME=/root USE_LIBUV=0 RINGTREE_TORCH_REQUIRED=1; cd /ringtree  # Debian builds torch without libuv
  [ -d /venv ] || python3 -m venv --system-site-packages /venv
  /venv/bin/pip install --quiet --force-reinstall --no-deps .
  /venv/bin/pip install --quiet rich pytest pytest-timeout hypothesis ml_dtypes expecttest
  /venv/bin/python -c "import torch; print(\"torch\", torch.__version__)"
  exec /venv/bin/python -m pytest -m "torch and not slow and not hosts" tests/torch_backend "$@"' tests "$@"
