{# The commands: https://docs.aws.amazon.com/cli/latest/reference/ec2 #}
{% set in_region %}{% if region %} --region={{ region }}{% endif %}{% endset %}
{% set disk %}{"VolumeSize": {{ disk_gb }}, "VolumeType": "gp3"}{% endset %}
#!/usr/bin/env bash
# Rents {{ workers }} machines for the job {{ name }}. Read it before you run it: it costs money.
set -euo pipefail

{# Unlike a here-document, no line of the script can end this. #}
printf '%s' {{ startup }} >{{ name }}-startup.sh

group=$(aws ec2 create-security-group{{ in_region }} \
  --group-name={{ name }} \
  '--description=tfmuster job {{ name }}' \
{% if vpc %}
  --vpc-id={{ vpc }} \
{% endif %}
  --query=GroupId \
  --output=text)
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
  --user-data=file://{{ name }}-startup.sh \
  '--block-device-mappings=[{"DeviceName": "/dev/xvda", "Ebs": {{ disk }}}]' \
  '--tag-specifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "{{ name }}"}]}]' \
{% if key_name %}
  --key-name={{ key_name }} \
{% endif %}
{% if subnet %}
  --subnet-id={{ subnet }} \
{% endif %}
  '--query=Instances[].InstanceId' \
  --output=text --security-group-ids="$group")
mapfile -t instances < <(tr -s '[:space:]' '\n' <<<"$text")
aws ec2 wait{{ in_region }} instance-running --instance-ids "${instances[@]}"

echo 'worker:' >{{ name }}.yaml
text=$(aws ec2 describe-instances{{ in_region }} \
  --output=text \
  '--query=Reservations[].Instances[].[PrivateIpAddress,PublicIpAddress]' \
  --instance-ids "${instances[@]}")
: >{{ name }}.hosts
while read -r address public; do
  echo "  - $address:{{ port }}" >>{{ name }}.yaml
  echo "$public" >>{{ name }}.hosts
done <<<"$text"
echo "machines: ${instances[*]}; security group: $group"

# The installation takes some minutes. Check whether a machine is ready:
#
#   ssh admin@ADDRESS tfmuster test
#
# Then send the script to each machine, and start it as the machine's task:
#
#   mapfile -t hosts <{{ name }}.hosts
#   for i in "${!hosts[@]}"; do
#     place=$(tfmuster config --cluster {{ name }}.yaml --type worker --index "$i" --format shell)
#     ssh "admin@${hosts[$i]}" "$place; tfmuster worker -- train.R" &
#   done; wait
#
# The machines cost money until you delete them. Delete the security group after them:
#
#   aws ec2 terminate-instances{{ in_region }} --instance-ids MACHINES
#   aws ec2 delete-security-group{{ in_region }} --group-id GROUP
