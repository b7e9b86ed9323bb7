# shellcheck shell=bash
# One line on the terminal for each step of the set-up; to be sourced. The output of a step's programs, hundreds of
# lines of apt and pip, goes to a log file: its end and its path are shown if the step fails.

logs=${LOGS:-.stamps}

# step LOG TITLE COMMAND...
step() {
  local log=$logs/$1 began=$SECONDS status=0
  mkdir -p "$logs"
  printf '%s ... ' "$2"
  "${@:3}" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -eq 0 ]; then
    printf 'done (%d s)\n' $((SECONDS - began))
  else
    printf 'failed (%d s)\n' $((SECONDS - began))
    {
      printf '    The last lines of the output:\n'
      tail -n 15 "$log" | while IFS= read -r line; do printf '    | %s\n' "$line"; done
      printf '    All of it: %s\n' "$log"
    } >&2
  fi
  return "$status"
}
