{# The commands: https://cloud.google.com/sdk/gcloud/reference/compute #}
{% extends "rented.sh" %}
{% set names %}{% for index in range(workers) %} {{ name }}-{{ index }}{% endfor %}{% endset %}
{% set in_project %}{% if project %} --project={{ project }}{% endif %}{% endset %}
{% set in_zone %} --zone={{ zone }}{{ in_project }}{% endset %}
{% macro rule(purpose, action, priority, ports, source) %}

  gcloud compute firewall-rules create {{ name }}-{{ purpose }} \
    --action={{ action }} \
    --priority={{ priority }} \
    --rules={{ ports }} \
    {{ source }} \
    --network={{ network or name }} \
    --direction=INGRESS \
    --target-tags={{ name }}{{ in_project }} \
    --description="$mark"
{%- endmacro %}
{% macro listed(kind, filter) %}
gcloud compute {{ kind }} list{{ in_project }} '--format=value(name)' --filter="{{ filter }}=$mark"
{%- endmacro %}
{% macro deleted(kind, filter, where) %}

  text=$({{ listed(kind, filter) }})
  read -rd '' -a found <<<"$text" || true
  if [ -n "${found[*]-}" ]; then
    gcloud compute {{ kind }} delete --quiet{{ where }} "${found[@]}"
  fi
{%- endmacro %}
{% block functions %}
# Lists all that has the mark.
made() {
  local mark
  mark=$(<"$mark_file")
  {{ listed("instances", "labels.tfmuster") }}
  {{ listed("firewall-rules", "description") }}
  {{ listed("networks", "description") }}
}
{% if ssh_from %}

on() { gcloud compute ssh{{ in_zone }} --command="$2" "{{ name }}-$1"; }
send() { gcloud compute scp{{ in_zone }} "$2" "{{ name }}-$1:{{ name }}/"; }
fetch() { gcloud compute scp --recurse{{ in_zone }} "{{ name }}-$1:{{ name }}/*" {{ name }}-files/; }
{% endif %}
{% endblock %}
{% block rent %}
{% if network is none %}

  {# Without rules, a network lets nothing in. #}
  gcloud compute networks create {{ name }} --subnet-mode=auto{{ in_project }} --description="$mark"
{% endif %}
{{ rule("workers", "ALLOW", 900, "tcp", "--source-tags=" ~ name) }}
{% if ssh_from %}
{{ rule("ssh", "ALLOW", 900, "tcp:22", "--source-ranges=" ~ ssh_from) }}
{% endif %}
{% if network is not none %}
{# It may have rules that let others in, such as default-allow-ssh of the network "default". #}
{{ rule("others", "DENY", 950, "all", "--source-ranges=0.0.0.0/0") }}
{% endif %}

  gcloud compute instances create{{ names }}{{ in_zone }} \
    --machine-type={{ machine_type }} \
    --image-family={{ image }} \
    --image-project={{ image_project }} \
    --boot-disk-size={{ disk_gb }}GB \
    --network={{ network or name }} \
    --tags={{ name }} \
    --labels=tfmuster="$mark" \
    --no-service-account --no-scopes \
    --max-run-duration={{ hours }}h \
    --instance-termination-action=DELETE \
    --provisioning-model={{ "SPOT" if spot else "STANDARD" }} \
{% if accelerator %}
    --accelerator=type={{ accelerator }},count={{ accelerators }} \
    --maintenance-policy=TERMINATE \
    --metadata=install-nvidia-driver=True \
{% endif %}
    --metadata-from-file=startup-script={{ name }}-startup.sh
  echo 'machines:{{ names }}'
  echo 'worker:' >{{ name }}.yaml
  for machine in{{ names }}; do
    address=$(gcloud compute instances describe{{ in_zone }} \
      '--format=get(networkInterfaces[0].networkIP)' "$machine")
    echo "  - $address:{{ port }}" >>{{ name }}.yaml
  done
{% endblock %}
{% block delete %}
{{ deleted("instances", "labels.tfmuster", in_zone) }}
{{ deleted("firewall-rules", "description", in_project) }}
{{ deleted("networks", "description", in_project) }}
{% endblock %}
