{# What the scripts of all providers have. Their blocks are functions and parts of functions. #}
#!/usr/bin/env bash
# Rents {{ workers }} machines for the job {{ name }}. Read it before you run it: it costs money.
#
#   bash SCRIPT rent                   rents them; they delete themselves after {{ hours }} h
{% if ssh_from %}
#   bash SCRIPT run train.R WORD...    runs train.R on all as one job, and fetches what it writes
{% endif %}
#   bash SCRIPT delete                 deletes all that was made
#
# All that is made has a mark, by which it is found, and which is in {{ name }}.mark until all is deleted.
set -euo pipefail

mark_file={{ name }}.mark

{% block functions %}{% endblock %}

# Says how to delete what costs money, whatever has failed.
last_words() {
  local code=$?
  if [ "$code" -ne 0 ] && [ -e "$mark_file" ]; then
    {
      echo
      echo "Something has failed (exit code $code). What was rented costs money until all is deleted:"
      echo "  bash $(printf %q "$0") delete"
      echo "By hand, look for the mark $(<"$mark_file"):"
      made || true
    } >&2
  fi
}

rent() {
  if [ -e "$mark_file" ]; then
    echo "There are machines of {{ name }}, or there may be: $mark_file exists." >&2
    exit 1
  fi
  printf '%(%s)T-%s\n' -1 "$RANDOM" >"$mark_file"
  mark=$(<"$mark_file")
  {# Unlike a here-document, no line of the script can end this. #}
  printf '%s' {{ startup }} >{{ name }}-startup.sh
{% block rent %}{% endblock %}

  echo "The installation takes some minutes. The machines cost money until: bash $(printf %q "$0") delete"
}

{% if ssh_from %}
run() {
  local script=$1 words place i task pids=() failed=()
  words=$(printf ' %q' "${script##*/}" "${@:2}")
{% block before_run %}{% endblock %}
  for i in {0..{{ workers - 1 }}}; do
    on "$i" 'mkdir -p {{ name }}'
    send "$i" "$script"
  done
  for i in {0..{{ workers - 1 }}}; do
    place=$(tfmuster config --cluster {{ name }}.yaml --type worker --index "$i" --format shell)
{% if spot %}
    # shellcheck disable=SC2016  # the machine expands it
    place+='; export TFMUSTER_NOTICE_COMMAND='$(printf %q {{ NOTICE }})
{% endif %}
    on "$i" "cd {{ name }}; $place; exec tfmuster worker --$words" &
    pids+=($!)
  done
  for task in "${!pids[@]}"; do
    wait "${pids[$task]}" || failed+=("worker $task (exit code $?)")
  done
  # The first worker is the chief, which writes the model.
  mkdir -p {{ name }}-files
  fetch 0 || failed+=("fetching the files of worker 0 (exit code $?)")
  if [ -n "${failed[*]-}" ]; then
    printf 'failed: %s\n' "${failed[@]}" >&2
    return 1
  fi
  echo "What worker 0 has written is in {{ name }}-files."
}

{% endif %}
delete() {
  if ! [ -e "$mark_file" ]; then
    echo "There is no $mark_file, so nothing is known that could be deleted." >&2
    exit 1
  fi
  mark=$(<"$mark_file")
{% block delete %}{% endblock %}

  rm "$mark_file"
  echo "All machines of {{ name }} are deleted."
}

trap last_words EXIT
case "$#:${1-}" in
  1:rent) rent ;;
  1:delete) delete ;;
{% if ssh_from %}
  [2-9]:run | [1-9][0-9]*:run) run "${@:2}" ;;
{% endif %}
  *)
    echo "bash $(printf %q "$0") rent{% if ssh_from %}, run SCRIPT [WORD...]{% endif %}, or delete" >&2
    exit 2
    ;;
esac
