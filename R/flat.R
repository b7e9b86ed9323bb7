# Arguments that launch() had before on_local() and its like: they keep working in this version.

on_arguments <- c(
  "backend", "backend_options", "master", "spark", "hosts", "copy", "files", "remote_python", "trust_hosts",
  "isolated", "warm", "oversubscribe", "requeue", "min_workers", "rejoin_timeout", "hosts_from", "grow"
)
# Those that mean something only where the workers are on other machines.
sending_arguments <- c("copy", "files", "remote_python", "trust_hosts")

# Take the arguments of earlier versions from those of the program. A function's own arguments stay.
# `chosen`: whether `on` and `control` are given. Returns list(given, on, control).
take_flat <- function(script, given, on, control, chosen, call = rlang::caller_env()) {
  own <- if (is.function(script)) names(formals(args(script)))
  # A function gets a strategy, and its caller names it.
  if (is.character(given[["strategy"]])) own <- setdiff(own, "strategy")
  names <- setdiff(intersect(names(given), c(on_arguments, names(formals(launch_control)))), own)
  if (!length(names)) {
    return(list(given = given, on = on, control = control))
  }
  flat <- given[names]
  of_on <- flat[intersect(names, on_arguments)]
  of_control <- flat[setdiff(names, on_arguments)]
  refuse_both(names(of_on), "on", chosen[["on"]], call)
  refuse_both(names(of_control), "control", chosen[["control"]], call)
  if (length(of_on)) on <- on_of_flat(of_on, call)
  if (length(of_control)) {
    control <- new_control(utils::modifyList(unclass(control), of_control, keep.null = TRUE), call)
  }
  tell_flat(names(of_on), on$backend, names(of_control))
  list(given = given[!names(given) %in% names | !nzchar(names(given))], on = on, control = control)
}

refuse_both <- function(names, argument, is_given, call) {
  if (length(names) && is_given) {
    abort_tfmuster(list(
      kind = "launch",
      message = sprintf("`%s` must be set in `%s`, which is given, too.", names[1], argument),
      found = sprintf("both `%s` and `%s`", names[1], argument),
      fix = "Move it there.", reason = "argument"
    ), call)
  }
}

on_of_flat <- function(flat, call) {
  # `$` would take `hosts_from` for `hosts`.
  has_hosts <- !is.null(flat[["hosts"]]) || !is.null(flat[["hosts_from"]])
  check_arguments(flat["backend"], c(backend = "name"), call = call)
  backend <- flat[["backend"]] %||% if (has_hosts) "ssh" else "local"
  settings <- flat[setdiff(names(flat), "backend")]
  check_session(settings[["spark"]], call)
  on <- new_on(backend, settings, call)
  set <- Filter(function(name) length(settings[[name]]) && !isFALSE(settings[[name]]), names(settings))
  unused <- intersect(set, sending_arguments)
  if (backend == "local" && length(unused)) {
    abort_tfmuster(list(
      kind = "launch", message = sprintf("`%s` is for workers on other machines.", unused[1]),
      found = "workers on this machine, which have all files", fix = "Leave it out, or name hosts.",
      reason = "argument"
    ), call)
  }
  on
}

tell_flat <- function(of_on, backend, of_control) {
  said <- c(
    if (length(of_on)) sprintf("%s of `on_%s()`", quoted(of_on), backend),
    if (length(of_control)) sprintf("%s of `launch_control()`", quoted(of_control))
  )
  shown <- c(
    if (length(of_on)) sprintf("on = on_%s(...)", backend),
    if (length(of_control)) "control = launch_control(...)"
  )
  cli::cli_inform(
    c(
      "!" = paste("Arguments of launch() have moved:", paste(said, collapse = ", ")),
      i = sprintf("Write launch(..., %s).", paste(shown, collapse = ", "))
    ),
    class = "tfmuster_renamed", .frequency = "once", .frequency_id = "tfmuster_flat"
  )
}

quoted <- function(names) paste0("`", names, "`", collapse = ", ")
