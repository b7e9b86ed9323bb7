# Run the function of launch(function) on a worker, in a separate R process.

most_warnings <- 50

# Read what put_call() has written, if it is that.
read_call <- function(file, digest, call = rlang::caller_env()) {
  if (!identical(run_python("sha256_of", file), digest)) {
    abort_tfmuster(list(
      kind = "launch", message = "The function to run must be the one that was launched.",
      found = paste(file, "has another content"),
      fix = "Give each job a run_dir of its own.", reason = "function"
    ), call)
  }
  readRDS(file)
}

# `digest`: the SHA-256 of the file with the function. `sent`: with hosts, where the file is in the working
# directory.
work_on_call <- function(digest, sent = character(), run_dir = Sys.getenv("TFMUSTER_RUN_DIR")) {
  places <- c(call_file(run_dir), sent)
  found <- places[file.exists(places)]
  if (!length(found)) {
    abort_tfmuster(list(
      kind = "launch", message = "The function to run must be in the run directory.",
      found = paste("no file", call_file(run_dir), "on this machine"),
      fix = "With hosts, choose a run_dir on a file system that all of them share.", reason = "function"
    ))
  }
  dir.create(call_folder(run_dir), showWarnings = FALSE, mode = "0700")
  # Show each warning immediately.
  options(warn = 1)
  file <- call_file(run_dir, current_task()$name)
  work <- read_call(found[1], digest)
  warnings <- list()
  part <- paste0(file, ".part")
  status <- NULL
  save_failure <- function(plain) save_private(list(error = plain, warnings = warnings), file, version = 2)
  # Leave the function's frames, which runs what they have set with on.exit(), and end.
  tryCatch(
    withCallingHandlers(
      {
        value <- pack_value(do_call(work))
        if (work$plain) save_plain(list(value = value, warnings = warnings), part)
      },
      warning = function(w) {
        if (length(warnings) < most_warnings) warnings[[length(warnings) + 1]] <<- plain_condition(w)
      },
      error = function(e) status <<- fail_on_call(e, save_failure, raised_at(sys.nframe()))
    ),
    # Where the stack was too deep to write down the failure, it no longer is.
    error = function(e) quit(save = "no", status = status %||% fail_on_call(e, save_failure))
  )
  if (work$plain) file.rename(part, file) else save_private(list(value = value, warnings = warnings), file)
  invisible()
}

do_call <- function(work) {
  for (package in work$packages) library(package, character.only = TRUE)
  list2env(work$globals, globalenv())
  args <- work$args
  # Create the strategy first, because TensorFlow must not have started before.
  if ("strategy" %in% names(formals(work$fn)) && !"strategy" %in% names(args)) {
    args <- c(list(strategy = strategy(work$strategy)), args)
  }
  # Call by names, so that calls and tracebacks don't contain the code of the function or the data.
  names <- names(args) %||% rep("", length(args))
  symbols <- ifelse(nzchar(names), names, paste0("argument_", seq_along(args)))
  frame <- list2env(rlang::set_names(args, symbols), parent = globalenv())
  # Start backtraces at the function.
  rlang::local_options(rlang_trace_top_env = frame)
  assign(work$name, work$fn, envir = frame)
  call_on_worker <- as.call(c(as.name(work$name), rlang::set_names(lapply(symbols, as.name), names)))
  eval(call_on_worker, frame)
}

# Convert a value so that R can save it to a file.
pack_value <- function(value) {
  if (inherits(value, "keras.src.models.model.Model")) {
    # All workers must call this. Only the chief returns the model, because the others' copies are equal.
    path <- model_to_file(value, tempfile(fileext = ".keras"))
    packed <- function(path) list(bytes = readBin(path, "raw", file.size(path)), table = known_table(value))
    return(if (!is.null(path)) structure(packed(path), class = "tfmuster_packed_model"))
  }
  if (inherits(value, "keras.src.callbacks.history.History")) {
    return(as_history(value$history))
  }
  if (inherits(value, "tfmuster_training")) {
    value$model <- pack_value(value$model)
  } else if (is.list(value) && !is.null(stays_here(value))) {
    value[] <- lapply(value, pack_value)
  }
  kind <- if (!inherits(value, "tfmuster_training")) stays_here(value)
  if (!is.null(kind)) {
    abort_tfmuster(list(
      kind = "launch", message = "A function on workers must return R objects.",
      found = paste("a Python object of class", kind),
      fix = paste(
        "Return its arrays or numbers, for example model$get_weights(); you can return a Keras model or",
        "history directly."
      ),
      reason = "python-object"
    ))
  }
  value
}

unpack_value <- function(value) {
  if (inherits(value, "tfmuster_packed_model")) {
    model <- model_from_bytes(value$bytes)
    if (is_safe_table(value$table)) remember_table(model, value$table)
    return(model)
  }
  if (has_model(value)) value[] <- lapply(value, unpack_value)
  value
}

has_model <- function(value) {
  inherits(value, "tfmuster_packed_model") ||
    (is.list(value) && any(vapply(unclass(value), has_model, logical(1))))
}
