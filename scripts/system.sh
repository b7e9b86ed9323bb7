#!/usr/bin/env bash
# Install the system packages that are missing: Debian's own R and R packages, so that nothing needs compiling.
# Where that can't be done, say what to install; what does not need it still works.
#
#   system.sh GROUP STAMP    touches STAMP if nothing of the group is missing any more
#
# Each group is what the one before it does not have yet:
#   run        to train: R, the R packages that tfmuster imports and its vignettes are made with, Python
#   develop    to lint, to build and to run the quick tests: the suggested R packages, tools
#   test       to run every test: Slurm, MPI, sshd, Spark's Java, a browser
set -euo pipefail
group=$1 stamp=$2
# shellcheck source=scripts/step.sh
. scripts/step.sh

fedora='' macos=''
case $group in
  run)
    debian=(
      r-base-core r-cran-cli r-cran-generics r-cran-globals r-cran-reticulate r-cran-rlang
      r-cran-jsonlite # examples/train.R reads its result with it
      r-cran-knitr r-cran-rmarkdown pandoc # the vignettes are made with them
      python3-venv
    )
    programs=(Rscript)
    fedora="R-core-devel" # CRAN's packages are compiled there
    macos="r python@3.11"
    ;;
  develop)
    debian=(
      r-base-dev r-cran-base64enc r-cran-covr r-cran-ggplot2 r-cran-later r-cran-lintr r-cran-pkgdown
      r-cran-callr r-cran-future r-cran-recipes r-cran-shiny # vignette("beside-other-packages")
      r-cran-promises r-cran-roxygen2 r-cran-rstudioapi r-cran-spelling r-cran-testthat r-cran-withr
      qpdf
    )
    programs=(pandoc qpdf)
    fedora="pandoc qpdf python3-devel libtirpc-devel" # the last two are what rpy2 is built with
    macos="pandoc qpdf"
    ;;
  test)
    debian=(
      openjdk-17-jre-headless          # Spark runs on it
      chromium                         # the tests look at the HTML page of a run in it
      graphviz                         # Keras draws a model with it
      python3-dev libtirpc-dev         # rpy2 is built with them
      iproute2 nftables openssh-client # the tests between machines, which are network namespaces
      openmpi-bin mpich                # the tests of MPI, of which there are two ways to start ranks
    )
    # On a machine with systemd these would start services at once; whether they may is not for us to say.
    [ -d /run/systemd/system ] || debian+=(
      openssh-server munge slurmctld slurmd slurm-client
      gridengine-master gridengine-exec gridengine-client
      libslurm-perl libslurmdb-perl libswitch-perl # the commands of scripts/pbs-commands.sh need them
    )
    # Grid Engine's packages need a mail program, and that one a mail server: one that is no daemon, if there is none.
    [ -e /usr/sbin/sendmail ] || debian+=(msmtp-mta)
    programs=() # elsewhere the tests that need more are skipped
    ;;
  *)
    echo "There is no group '$group': run, develop or test." >&2
    exit 2
    ;;
esac

missing_debian_packages() {
  local package
  for package in "${debian[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

install_debian_packages() {
  apt-get update -q && apt-get install -q -y --no-install-recommends "$@"
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
    export DEBIAN_FRONTEND=noninteractive
    # Without systemd, too, nothing is to be started: the tests start daemons of their own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
      trap 'rm -f $policy' EXIT
      printf '#!/bin/sh\nexit 101\n' >$policy
      chmod +x $policy
    fi
    if step "system-$group.log" "Installing with apt-get: ${missing[*]}" install_debian_packages "${missing[@]}"; then
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
  for program in ${programs[@]+"${programs[@]}"}; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    touch "$stamp"
  else
    advise "Not on this machine: ${missing[*]}" "Fedora: sudo dnf install $fedora" "macOS: brew install $macos"
  fi
fi
