{# The commands: https://docs.aws.amazon.com/cli/latest/reference/ec2 #}
{% extends "rented.sh" %}
{% set in_region %}{% if region %} --region={{ region }}{% endif %}{% endset %}
{% set disk %}{"VolumeSize": {{ disk_gb }}, "VolumeType": "gp3"}{% endset %}
{% macro tagged(kind) %}
--tag-specifications="ResourceType={{ kind }},Tags=[{Key=Name,Value={{ name }}},{Key=tfmuster,Value=$mark}]"
{%- endmacro %}
{% block functions %}
# Lists the machines that have the mark, but for those that are deleted.
machines() {
  aws ec2 describe-instances{{ in_region }} \
    '--query=Reservations[].Instances[].InstanceId' \
    --output=text \
    --filters Name=tag:tfmuster,Values="$1" Name=instance-state-name,Values=pending,running,stopping,stopped
}

groups() {
  aws ec2 describe-security-groups{{ in_region }} \
    '--query=SecurityGroups[].GroupId' \
    --output=text \
    --filters Name=tag:tfmuster,Values="$1"
}

made() {
  local mark
  mark=$(<"$mark_file")
  echo "machines: $(machines "$mark")"
  echo "security group: $(groups "$mark")"
}
{% if ssh_from %}

on() { ssh -o StrictHostKeyChecking=accept-new "admin@${hosts[$1]}" "$2"; }
send() { scp -q "$2" "admin@${hosts[$1]}:{{ name }}/"; }
fetch() { scp -qr "admin@${hosts[$1]}:{{ name }}/*" {{ name }}-files/; }
{% endif %}
{% endblock %}
{% block rent %}

  group=$(aws ec2 create-security-group{{ in_region }} \
    --group-name={{ name }}-"$mark" \
    '--description=tfmuster job {{ name }}' \
{% if vpc %}
    --vpc-id={{ vpc }} \
{% endif %}
    {{ tagged("security-group") }} \
    --query=GroupId \
    --output=text)
  echo "security group: $group"
  aws ec2 authorize-security-group-ingress{{ in_region }} \
    --protocol=tcp \
    --port=0-65535 --group-id="$group" --source-group="$group"
{% if ssh_from %}
  aws ec2 authorize-security-group-ingress{{ in_region }} \
    --protocol=tcp \
    --port=22 \
    --cidr={{ ssh_from }} --group-id="$group"
{% endif %}
  text=$(aws ec2 run-instances{{ in_region }} \
    --image-id={{ image }} \
    --instance-type={{ machine_type }} \
    --count={{ workers }} \
    --client-token="$mark" \
    --user-data=file://{{ name }}-startup.sh \
    --metadata-options=HttpTokens=required,HttpEndpoint=enabled \
    --instance-initiated-shutdown-behavior=terminate \
{% if spot %}
    --instance-market-options=MarketType=spot \
{% endif %}
    '--block-device-mappings=[{"DeviceName": "/dev/xvda", "Ebs": {{ disk }}}]' \
    {{ tagged("instance") }} \
{% if key_name %}
    --key-name={{ key_name }} \
{% endif %}
{% if subnet %}
    --subnet-id={{ subnet }} \
{% endif %}
    '--query=Instances[].InstanceId' \
    --output=text --security-group-ids="$group")
  read -rd '' -a instances <<<"$text" || true
  echo "machines: ${instances[*]}"
  aws ec2 wait{{ in_region }} instance-running --instance-ids "${instances[@]}"
  text=$(aws ec2 describe-instances{{ in_region }} \
    --output=text \
    '--query=Reservations[].Instances[].[PrivateIpAddress,PublicIpAddress]' \
    --instance-ids "${instances[@]}")
  echo 'worker:' >{{ name }}.yaml
  : >{{ name }}.hosts
  while read -r address public; do
    echo "  - $address:{{ port }}" >>{{ name }}.yaml
    echo "$public" >>{{ name }}.hosts
  done <<<"$text"
{% endblock %}
{% block before_run %}
  mapfile -t hosts <{{ name }}.hosts
{% endblock %}
{% block delete %}

  text=$(machines "$mark")
  read -rd '' -a found <<<"$text" || true
  if [ -n "${found[*]-}" ]; then
    aws ec2 terminate-instances{{ in_region }} --output=text --instance-ids "${found[@]}"
    aws ec2 wait{{ in_region }} instance-terminated --instance-ids "${found[@]}"
  fi
  text=$(groups "$mark")
  read -rd '' -a found <<<"$text" || true
  for group in "${found[@]+"${found[@]}"}"; do
    aws ec2 delete-security-group{{ in_region }} --group-id="$group"
  done
{% endblock %}
