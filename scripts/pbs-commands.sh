#!/usr/bin/env bash
# Unpack Debian's commands of PBS over Slurm for the tests: beside Grid Engine's they can't be installed, as both are
# called qsub, qstat and qdel. Where that can't be done, the tests of PBS are skipped.
#
#   pbs-commands.sh FOLDER
set -euo pipefail
folder=$1
# shellcheck source=scripts/step.sh
. scripts/step.sh

unpack() {
  local downloaded
  downloaded=$(mktemp -d)
  (cd "$downloaded" && apt-get download -q slurm-wlm-torque) && dpkg-deb -x "$downloaded"/slurm-wlm-torque_*.deb "$folder"
  rm -rf "$downloaded"
}

mkdir -p "$folder"
if command -v apt-get >/dev/null && command -v slurmctld >/dev/null; then
  step pbs-commands.log "Unpacking slurm-wlm-torque" unpack || true
fi
