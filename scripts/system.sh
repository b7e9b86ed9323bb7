#!/usr/bin/env bash
# Install the system packages that are missing: Debian's own R and R packages, so that nothing needs compiling.
# Where that can't be done, say what to install; what does not need it still works.
#
#   system.sh STAMP    touches STAMP if nothing is missing any more
set -euo pipefail
stamp=$1

debian=(
  r-base-core r-base-dev r-cran-reticulate r-cran-cli r-cran-globals r-cran-rlang r-cran-jsonlite
  r-cran-base64enc r-cran-generics r-cran-rstudioapi
  r-cran-ggplot2 r-cran-withr r-cran-testthat r-cran-roxygen2 r-cran-knitr r-cran-rmarkdown r-cran-lintr
  r-cran-covr r-cran-pkgdown
  pandoc qpdf
  openjdk-17-jre-headless               # Spark runs on it
  chromium                              # the tests look at the HTML page of a run in it
  python3-venv python3-dev libtirpc-dev # the last two are what rpy2 is built with
  iproute2 nftables openssh-client      # the tests between machines, which are network namespaces
  openmpi-bin mpich                     # the tests of MPI, of which there are two ways to start ranks
)
# On a machine with systemd these would start services at once; whether they may is not for us to say.
[ -d /run/systemd/system ] || debian+=(openssh-server munge slurmctld slurmd slurm-client)
fedora="R-core-devel pandoc qpdf python3-devel libtirpc-devel"
macos="r pandoc qpdf python@3.11"

missing_debian_packages() {
  local package
  for package in "${debian[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

advise() {
  printf '\n*** %s\n' "$1"
  printf '    %s\n' "${@:2}" "Then run make again. Until then the parts that need them are left out." ""
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  mapfile -t missing < <(missing_debian_packages)
  if [ ${#missing[@]} -eq 0 ]; then
    touch "$stamp"
  elif [ "$(id -u)" -eq 0 ]; then
    echo "System packages to install: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # Without systemd, too, nothing is to be started: the tests start daemons of their own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
      trap 'rm -f $policy' EXIT
      printf '#!/bin/sh\nexit 101\n' >$policy
      chmod +x $policy
    fi
    if { apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"; } </dev/null; then
      touch "$stamp"
    else
      advise "apt-get could not install: ${missing[*]}" "apt-get install ${missing[*]}"
    fi
  else
    advise "These Debian/Ubuntu packages are missing, and installing them takes root: ${missing[*]}" \
      "sudo apt-get install ${missing[*]}"
  fi
else
  missing=()
  for program in Rscript pandoc qpdf; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    touch "$stamp"
  else
    advise "Not on this machine: ${missing[*]}" "Fedora: sudo dnf install $fedora" "macOS: brew install $macos"
  fi
fi
