#' Choose where launch() runs the workers
#'
#' Each function makes a small object for the argument `on` of [launch()]. Printing it shows what it does,
#' and the same as options of the command `tfmuster launch`.
#'
#' @param x An object of one of these functions.
#' @return An object of class `tfmuster_on`, a list of settings. `format()` returns the call that makes it.
#' @section Errors: `tfmuster_error_launch` with the reason `argument`.
#' @seealso [launch()], and `tfmuster_doctor()` for the engines that work here.
#' @examplesIf tfmuster_available()
#' on_ssh(c("node1:2", "node2:2"), copy = TRUE)
#' on_slurm("--partition=gpu", "--time=1:00:00", requeue = TRUE)
#' on_sge("-q gpu.q")
#' on_pbs("-l walltime=1:00:00")
#' on_lsf("-q gpu")
#' on_mpi(c("node1:2", "node2:2"))
#' on_spark("spark://node1:7077", "spark.executor.memory=4g")
#' values <- launch(function() Sys.getpid(), workers = 2, on = on_local(), run_dir = tempfile("run"))
#' @name on_local
NULL

options_of <- function(..., call = rlang::caller_env()) {
  options <- list(...)
  strings <- vapply(options, is_text, logical(1))
  if (length(names(options)) || !all(strings)) {
    wrong <- if (all(strings)) names(options)[nzchar(names(options))][1] else options[[which(!strings)[1]]]
    abort_argument(
      "Options of the program that starts the workers must be strings without names.", wrong,
      "Write \"--partition=gpu\" for an option of sbatch.", call, kind = "launch"
    )
  }
  as.character(unlist(options))
}

# `settings`: the arguments of the function of that engine, which launch_options.R has.
new_on <- function(backend, settings, call = rlang::caller_env()) {
  check_settings(settings, call)
  check_session(settings[["spark"]], call)
  structure(c(list(backend = backend), settings), class = c(paste0("tfmuster_on_", backend), "tfmuster_on"))
}

#' @rdname on_local
#' @export
format.tfmuster_on <- function(x, ...) {
  fn <- paste0("on_", x$backend)
  defaults <- if (exists(fn, asNamespace("tfmuster"), inherits = FALSE)) formals(fn)
  settings <- unclass(x)[-1]
  options <- settings$backend_options
  is_set <- function(name) !identical(settings[[name]], eval(defaults[[name]]))
  set <- Filter(is_set, setdiff(names(settings), "backend_options"))
  named <- sprintf("%s = %s", set, vapply(settings[set], short_text, ""))
  first <- set %in% c("hosts", "master")
  shown <- c(sub("^[a-z]+ = ", "", named[first]), encodeString(options, quote = "\""), named[!first])
  sprintf("%s(%s)", fn, paste(shown, collapse = ", "))
}

short_text <- function(value) if (is_python(value)) "<session>" else deparse1(value)

#' @rdname on_local
#' @export
print.tfmuster_on <- function(x, ...) {
  cli::cat_line(cli::style_bold(format(x)))
  cli::cat_line("  ", what_on_does[[x$backend]] %||% "")
  command <- tryCatch(run_python("where_text", where_of(x)), error = function(e) NULL)
  if (!is.null(command)) cli::cat_line(cli::col_grey("  As a command: "), command)
  invisible(x)
}

what_on_does <- c(
  local = "Starts the workers as processes on this machine.",
  ssh = "Starts the workers with ssh on these hosts.",
  slurm = "Submits a job with sbatch, in which srun starts the workers.",
  sge = "Submits a job with qsub, in which qrsh starts the workers.",
  pbs = "Submits a job with qsub, which starts the workers on its hosts.",
  lsf = "Submits a job with bsub, in which blaunch starts the workers.",
  mpi = "Starts the workers with mpirun.",
  spark = "Runs the workers as the tasks of a barrier stage of Spark."
)

# The settings of the core's engines.
where_of <- function(on) {
  where <- unclass(on)
  # `$` would take `hosts_from` for `hosts`.
  hosts <- where[["hosts"]]
  where["hosts"] <- list(if (!is.null(hosts)) paste(hosts, collapse = ","))
  where$files <- lapply(where$files, as_path)
  where$backend_options <- as.list(where$backend_options)
  with_whole_numbers(where)
}
