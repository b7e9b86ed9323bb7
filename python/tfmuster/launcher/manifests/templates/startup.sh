#!/bin/bash
set -euo pipefail
if [ -e /opt/tfmuster/ready ]; then
  exit 0
fi
{% if shuts_down %}
# The machine is deleted when it shuts down.
shutdown -h +{{ 60 * hours }}
{% endif %}
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
 {% for package in packages %} {{ package }}{% endfor +%}
mkdir -p /opt/tfmuster/source
curl -fsSL --proto =https --proto-redir =https -- {{ source }} |
  tar -xz --strip-components=1 -C /opt/tfmuster/source
python3 -m venv /opt/tfmuster/venv
# Debian's reticulate supports only numpy 1.
/opt/tfmuster/venv/bin/pip install --no-cache-dir \
  '/opt/tfmuster/source[{{ "cuda" if gpus else "tensorflow" }}]' 'numpy>=1.26,<2'
R CMD INSTALL /opt/tfmuster/source
ln -sf /opt/tfmuster/venv/bin/tfmuster /usr/local/bin/tfmuster
touch /opt/tfmuster/ready
