{# The commands: https://cloud.google.com/sdk/gcloud/reference/compute #}
{% set names %}{% for index in range(workers) %} {{ name }}-{{ index }}{% endfor %}{% endset %}
{% set in_project %}{% if project %} --project={{ project }}{% endif %}{% endset %}
{% macro rule(purpose, action, priority, ports, source) %}
gcloud compute firewall-rules create {{ name }}-{{ purpose }} \
  --action={{ action }} \
  --priority={{ priority }} \
  --rules={{ ports }} \
  {{ source }} \
  --network={{ network }} \
  --direction=INGRESS \
  --target-tags={{ name }}{{ in_project }}
{%- endmacro %}
#!/usr/bin/env bash
# Rents {{ workers }} machines for the job {{ name }}. Read it before you run it: it costs money.
set -euo pipefail

{# Unlike a here-document, no line of the script can end this. #}
printf '%s' {{ startup }} >{{ name }}-startup.sh

{# The default network allows all its machines, so a rule of higher priority denies all other traffic. #}
{{ rule("workers", "ALLOW", 900, "tcp", "--source-tags=" ~ name) }}
{{ rule("others", "DENY", 950, "tcp:1024-65535", "--source-ranges=0.0.0.0/0") }}
{% if ssh_from %}
{{ rule("ssh", "ALLOW", 900, "tcp:22", "--source-ranges=" ~ ssh_from) }}
{% endif %}
gcloud compute instances create{{ names }} \
  --zone={{ zone }}{{ in_project }} \
  --machine-type={{ machine_type }} \
  --image-family={{ image }} \
  --image-project={{ image_project }} \
  --boot-disk-size={{ disk_gb }}GB \
  --network={{ network }} \
  --tags={{ name }} \
  --metadata-from-file=startup-script={{ name }}-startup.sh{% if accelerator %} \
  --accelerator=type={{ accelerator }},count={{ accelerators }} \
  --maintenance-policy=TERMINATE \
  --metadata=install-nvidia-driver=True{% endif +%}

echo 'worker:' >{{ name }}.yaml
for name in{{ names }}; do
  address=$(gcloud compute instances describe --zone={{ zone }}{{ in_project }} \
    '--format=get(networkInterfaces[0].networkIP)' "$name")
  echo "  - $address:{{ port }}" >>{{ name }}.yaml
done

# The installation takes some minutes. Check whether a machine is ready:
#
#   gcloud compute ssh --zone={{ zone }}{{ in_project }} {{ name }}-0 --command='tfmuster test'
#
# Then send the script to each machine, and start it as the machine's task:
#
#   for i in {0..{{ workers - 1 }}}; do
#     place=$(tfmuster config --cluster {{ name }}.yaml --type worker --index "$i" --format shell)
#     gcloud compute ssh --zone={{ zone }}{{ in_project }} "{{ name }}-$i" \
#       --command="$place; tfmuster worker -- train.R" &
#   done; wait
#
# The machines cost money until you delete them:
#
#   gcloud compute instances delete{{ names }} --zone={{ zone }}{{ in_project }}
#   gcloud compute firewall-rules delete {{ name }}-workers {{ name }}-others
{%- if ssh_from %} {{ name }}-ssh{% endif %}{{ in_project }}
