# Checks of arguments that R can describe better than Python, which sees only converted values.

# Of settings of launch(), those that are there.
check_settings <- function(settings, call = rlang::caller_env()) {
  kinds <- launch_arguments[intersect(names(launch_arguments), names(settings))]
  check_arguments(settings, kinds, call = call)
}

# Settings of launch() with Python's integers.
with_whole_numbers <- function(settings) {
  of_kind <- launch_arguments %in% c("count", "number", "share", "seed")
  whole <- intersect(names(launch_arguments)[of_kind], names(settings))
  settings[whole] <- lapply(settings[whole], as_whole)
  settings
}

# `values`: a named list. `kinds`: for each argument, by name, one of argument_kinds.
check_arguments <- function(values, kinds, kind = "launch", call = rlang::caller_env()) {
  for (name in names(kinds)) {
    value <- values[[name]]
    what <- argument_kinds[[sub("?", "", kinds[[name]], fixed = TRUE)]]
    optional <- endsWith(kinds[[name]], "?")
    if (!(optional && is.null(value)) && !what$is(value)) {
      refuse_argument(name, paste0(what$says, if (optional) ", or NULL"), value, kind, call)
    }
  }
}

# Check the arguments of the function that calls this. `...`: for each, by name, one of argument_kinds. One
# without a default must be given.
check_own <- function(..., kind = "error", frame = rlang::caller_env()) {
  kinds <- c(...)
  defaults <- formals(sys.function(sys.parent()))
  for (name in names(kinds)) {
    if (rlang::is_missing(defaults[[name]]) && eval(call("missing", as.name(name)), frame)) {
      must <- sprintf("`%s` must be given: %s.", name, argument_kinds[[kinds[[name]]]]$says)
      abort_tfmuster(list(kind = kind, message = must, found = NULL, fix = NULL, reason = "argument"), frame)
    }
    check_arguments(mget(name, frame), kinds[name], kind, frame)
  }
}

refuse_argument <- function(name, must, value, kind, call = rlang::caller_env()) {
  abort_argument(sprintf("`%s` must be %s.", name, must), value, call = call, kind = kind)
}

abort_argument <- function(message, value, fix = NULL, call = rlang::caller_env(), kind = "error") {
  if (inherits(value, "tfmuster_runs")) {
    found <- sprintf("a list of %d runs", length(value))
  } else if (rlang::is_formula(value) || (is.atomic(value) && length(value) <= 3)) {
    found <- deparse1(value)
  } else {
    found <- sprintf("an object of class %s and length %d", class(value)[1], length(value))
  }
  abort_tfmuster(list(kind = kind, message = message, found = found, fix = fix, reason = "argument"), call)
}

# `given`: arguments of the program. `settings`: the arguments of launch() that are values, by name.
check_launch <- function(script, given, on, control, settings, call = rlang::caller_env()) {
  if (!inherits(on, "tfmuster_on")) {
    refuse_argument("on", "an object such as on_local() or on_ssh(\"node1:2\")", on, "launch", call)
  }
  if (!inherits(control, "tfmuster_control")) {
    refuse_argument("control", "an object from launch_control()", control, "launch", call)
  }
  check_arguments(settings, launch_arguments[names(settings)], call = call)
  check_files(on$files, call)
  if (is.function(script)) {
    check_function(script, given, control$strategy, call)
  } else {
    check_unnamed(given, call)
    check_script(script, given, on, control, settings$workers, call)
  }
}

check_files <- function(files, call) {
  missing <- Filter(function(file) !file.exists(path.expand(file)), files)
  if (length(missing)) {
    abort_tfmuster(list(
      kind = "launch", message = "The files to send must exist.", found = paste("no", missing[1]),
      fix = paste("The working directory is", getwd()), reason = "files"
    ), call)
  }
}

# What a script can't be meant to get.
check_script <- function(script, given, on, control, workers, call) {
  of_functions <- c(
    if (!identical(control$strategy, formals(launch_control)$strategy)) "strategy",
    if (!isTRUE(control$globals)) "globals", if (!is.null(control$packages)) "packages",
    if (isTRUE(on$trust_hosts)) "trust_hosts"
  )
  if (length(of_functions)) {
    abort_tfmuster(list(
      kind = "launch", message = sprintf("`%s` is for functions.", of_functions[1]),
      found = paste("the script", script), fix = "Leave it out, or launch a function.", reason = "argument"
    ), call)
  }
  if (is.null(workers) && length(given) == 1 && is_number(given[[1]])) {
    number <- format(given[[1]])
    abort_tfmuster(list(
      kind = "launch", message = "A number alone must be the number of workers, or in quotes.",
      found = sprintf("%s as the only argument of %s", number, script),
      fix = sprintf("Write workers = %s, or \"%s\" to pass it to the script.", number, number),
      reason = "argument"
    ), call)
  }
}

check_function <- function(fn, given, strategy, call) {
  expected <- names(formals(args(fn)))
  if ("strategy" %in% expected && is.character(given[["strategy"]])) {
    abort_tfmuster(list(
      kind = "launch", message = "The name of the function's strategy must be set in `control`.",
      found = sprintf("`strategy = %s`", deparse1(given[["strategy"]])),
      fix = sprintf("Write control = launch_control(strategy = %s).", deparse1(given[["strategy"]])),
      reason = "argument"
    ), call)
  }
  unknown <- setdiff(names(given), c(expected, ""))
  if (length(unknown) && !"..." %in% expected) {
    abort_tfmuster(list(
      kind = "launch", message = "The function must have the arguments that you pass to it.",
      found = sprintf("no argument `%s`", unknown[1]), fix = meant(unknown[1]), reason = "argument"
    ), call)
  }
  check_call(fn, given, call)
  run_python("check_name", strategy, call = call)
}

# Whether the worker can call the function: it gets `given`, and a strategy if it has an argument for one.
check_call <- function(fn, given, call) {
  definition <- args(fn)
  expected <- formals(definition)
  if ("strategy" %in% names(expected)) given$strategy <- given$strategy %||% NA
  # R's message shows what is left over, so pass no data.
  names <- names(given) %||% rep("", length(given))
  shown <- rlang::set_names(lapply(seq_along(given), function(i) as.name(paste("argument", i))), names)
  matched <- if (is.null(definition)) NULL else tryCatch(
    names(match.call(definition, as.call(c(as.name("fn"), shown)))),
    error = function(e) {
      abort_tfmuster(list(
        kind = "launch", message = "The function must take the arguments that you pass to it.",
        found = conditionMessage(e), fix = "Pass values for its arguments alone.", reason = "argument"
      ), call)
    }
  )
  has_default <- !vapply(expected, rlang::is_missing, logical(1))
  needed <- setdiff(names(expected)[!has_default], c(matched, "..."))
  needed <- needed[vapply(needed, uses_value, logical(1), code = body(fn))]
  if (length(needed)) {
    abort_tfmuster(list(
      kind = "launch", message = "Every argument of the function must have a value or a default.",
      found = paste("no value for", paste0("`", needed, "`", collapse = ", ")),
      fix = sprintf("Pass it by name: launch(fn, %s = value).", needed[1]), reason = "argument"
    ), call)
  }
}

# Whether code needs the value of an argument: it has its name, and does not ask missing() for it.
uses_value <- function(name, code) {
  name %in% all.names(code) && !any(grepl(sprintf("missing(%s)", name), deparse(code), fixed = TRUE))
}

check_unnamed <- function(given, call) {
  named <- names(unlist(given))
  named <- named[nzchar(named)]
  if (length(named)) {
    value <- deparse1(unlist(given)[[named[1]]])
    abort_tfmuster(list(
      kind = "launch", message = "The arguments of a script must not have names.",
      found = sprintf("`%s = %s`", named[1], value),
      fix = meant(named[1]) %||% sprintf("Write \"--%s\", %s.", named[1], value),
      reason = "argument"
    ), call)
  }
}

# The setting of launch() with the name nearest to one that the program can't get; NULL if no name is near.
meant <- function(name) {
  if (name == "backend") {
    return("Did you mean `on`, such as on = on_slurm()?")
  }
  places <- c("launch", "launch_control", paste0("on_", names(what_on_does)))
  known <- lapply(places, function(place) setdiff(names(formals(place)), c("script", "...")))
  names <- unique(unlist(known))
  # A name as short as `lr` is near to `on`, without being like it.
  distance <- utils::adist(name, names) / nchar(name)
  if (name == "n") distance[names == "workers"] <- 0
  if (min(distance) < 0.4) {
    near <- names[which.min(distance)]
    place <- places[vapply(known, function(arguments) near %in% arguments, TRUE)][1]
    argument <- if (place == "launch_control") "control" else "on"
    setting <- if (place == "launch") near else sprintf("%s = %s(%s = ...)", argument, place, near)
    sprintf("Did you mean `%s`?", setting)
  }
}

# Format arguments for a script as R users write them: 100000, not 1e+05, and TRUE next to 3.
script_arguments <- function(given) {
  unlist(lapply(given, function(each) {
    if (is.list(each)) {
      script_arguments(each)
    } else if (is.numeric(each) && !is.object(each)) {
      vapply(each, format, "", scientific = FALSE, digits = 15, trim = TRUE)
    } else {
      as.character(each)
    }
  }))
}
