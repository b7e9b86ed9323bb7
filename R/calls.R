# Send a function to the workers and read its values: files in the folder `call` of the run directory, which
# only this user can read.

call_folder <- function(run_dir) file.path(run_dir, "call")

call_file <- function(run_dir, task = NULL) {
  stem <- if (is.null(task)) "call" else sub(" ", "-", task, fixed = TRUE)
  file.path(call_folder(run_dir), paste0(stem, ".rds"))
}

# Write the file that the workers read, in a run directory whose folder `call` belongs to this call alone.
# `plain`: values must be data, because they come from machines that this session does not trust. Returns the
# SHA-256 of the file's content, which the workers compare.
put_call <- function(run_dir, fn, args, name, strategy, globals, packages, plain = FALSE,
                     call = rlang::caller_env()) {
  travels <- pack_function(fn, globals, call)
  check_travels(c(travels$values, args), call)
  # The values refer to their old environments, which would be saved too.
  travels$values <- NULL
  travels$args <- args
  travels$name <- name
  travels$strategy <- strategy
  travels$plain <- plain
  travels$packages <- unique(c(travels$packages, packages))
  save_private(travels, call_file(run_dir), native = TRUE)
  run_python("sha256_of", call_file(run_dir), call = call)
}

# `native`: in this machine's order of bytes, which takes half the time. TensorFlow runs on no machine that
# has another one.
save_private <- function(object, file, version = NULL, native = FALSE) {
  old <- Sys.umask("077")
  on.exit(Sys.umask(old))
  part <- paste0(file, ".part")
  # On the same disk, compression takes longer than it saves.
  if (native) {
    connection <- base::file(part, "wb")
    tryCatch(serialize(object, connection, xdr = FALSE, version = version), finally = close(connection))
  } else {
    saveRDS(object, part, compress = FALSE, version = version)
  }
  file.rename(part, file)
}

# Save a result that a session on another machine reads, and fail if it is not data only. The older format has
# no compact vectors, whose reading makes R look for a package.
save_plain <- function(result, file, call = rlang::caller_env()) {
  old <- Sys.umask("077")
  on.exit(Sys.umask(old))
  saveRDS(result, file, compress = FALSE, version = 2)
  run_python("check_returned", file, call = call)
}

# The result that a worker has written: list(value, error, warnings), or NULL. Checked before R reads it,
# because readRDS() can run code.
read_result <- function(run_dir, task) {
  file <- if (!is.null(task)) call_file(run_dir, task)
  if (!is.null(file) && file.exists(file)) {
    run_python("check_r_result", run_dir, file)
    result <- readRDS(file)
    result$error <- as_condition(result$error)
    result$warnings <- lapply(result$warnings, as_condition)
    result
  }
}

values_of <- function(run, call = rlang::caller_env()) {
  path <- run$path
  left <- tasks_left(path)
  if (!length(left)) {
    abort_tfmuster(list(
      kind = "launch", message = "A function on workers must return, and this one ended R instead.",
      found = paste("no value of any worker in the run", run$name),
      fix = "Don't call q() or quit() in it: a worker's R ends by itself.", reason = "ended"
    ), call)
  }
  started <- names(run_status(run)$tasks)
  # With parameter servers, only the coordinator returns: the other tasks serve until it ends.
  tasks <- in_order(if (any(startsWith(started, "ps "))) left else union(left, started))
  results <- lapply(rlang::set_names(tasks), function(task) read_result(path, task))
  chief <- if ("chief 0" %in% tasks) "chief 0" else "worker 0"
  for (warning in results[[chief]]$warnings) {
    cli::cli_warn(
      bullet(paste0(chief, " warned.")),
      class = c("tfmuster_warning_worker", "tfmuster_warning"), parent = warning, task = chief, call = call
    )
  }
  structure(
    lapply(results, function(result) unpack_value(result$value)),
    run = run, class = "tfmuster_values"
  )
}

# The tasks that have written a value or an error.
tasks_left <- function(run_dir) {
  files <- list.files(call_folder(run_dir), "-[0-9]+[.]rds$")
  sub("-", " ", tools::file_path_sans_ext(files), fixed = TRUE)
}

# Sort by number, so that worker 10 comes after worker 9.
in_order <- function(tasks) tasks[order(sub(" .*", "", tasks), as.integer(sub(".* ", "", tasks)))]

#' @export
print.tfmuster_values <- function(x, ...) {
  print(structure(unclass(x), run = NULL), ...)
  invisible(x)
}

#' @export
`[.tfmuster_values` <- function(x, i) {
  structure(NextMethod(), run = attr(x, "run"), class = "tfmuster_values")
}

# The first model among the values of a run's function, or NULL. A Python function's run has Python's files.
returned_model <- function(run) {
  path <- run$path
  first <- function(value) {
    if (inherits(value, "tfmuster_packed_model")) value else first(Find(has_model, unclass(value)))
  }
  for (task in in_order(tasks_left(path))) {
    value <- read_result(path, task)$value
    if (has_model(value)) {
      return(unpack_value(first(value)))
    }
  }
  NULL
}
