#' Choose where launch() runs the workers
#'
#' Each function makes a small object for the argument `on` of [launch()]. Printing it shows what it does,
#' and the same as options of the command `tfmuster launch`.
#'
#' @param hosts Other machines with their number of tasks, `c("node1:2", "node2:2")`. For `on_ssh()`, your
#'   `ssh` must reach them without a password, and they need R and a Python with this version of tfmuster.
#' @param ... Options of the program that starts the workers, as strings: for sbatch `"--partition=gpu"`, for
#'   mpirun `"--map-by node"`, for Spark `"spark.executor.memory=4g"`.
#' @param copy `TRUE` sends the script to the other machines. Otherwise it must exist there at the same path.
#' @param files Files and folders to send with the script, for example modules and data. They keep their path
#'   relative to the working directory. Each worker then runs in a temporary folder, which is removed
#'   afterwards. What the chief's program writes there is copied to `files/` in the run directory, up to 2 GB.
#' @param remote_python Path of the Python on the other machines that has tfmuster. Default: the path of this
#'   session's Python.
#' @param trust_hosts Functions only: `TRUE` lets workers on other machines return R objects of any kind.
#'   Reading them lets every host of the job run code in this session, so set this only if you trust all of
#'   them. By default such workers return vectors, factors, data frames, matrices, lists of them, and models:
#'   no functions, formulas, environments, S4 or R6 objects. Workers on this machine may return any R object.
#' @param isolated `TRUE` gives the workers a network of their own, in which they reach only each other, and
#'   nothing else reaches them. Programs that download data then fail. Linux only.
#' @param warm With `max_restarts`: `TRUE` keeps a process ready for each worker, with TensorFlow and Keras
#'   imported, so that a restart takes half the time. It needs about 500 MB for each.
#' @param oversubscribe `TRUE` starts the job although it has more than four processes for a core, or needs
#'   more than the free memory of this machine. Otherwise that is refused.
#' @param hosts_from In place of `hosts`: a shell command that prints a line `host:slots` for each host. It is
#'   asked at the start, and again at each restart.
#' @param min_workers With `max_restarts`: a host that is lost and does not come back is left out at the
#'   restart, as long as so many workers are left. They make the same updates, with the same global batches.
#'   Default: all workers are needed.
#' @param rejoin_timeout With `min_workers`: seconds that a lost host may take to come back.
#' @param grow With `min_workers`: seconds between two looks for hosts that are back or, with `hosts_from`,
#'   new. The workers then write a checkpoint and start again, with at most `workers` of them.
#' @param requeue `TRUE` writes a checkpoint two minutes before the time limit, requeues the job, and resumes
#'   it. After preemption or a lost node it resumes from the newest checkpoint.
#' @param master The URL of a master, `"spark://node1:7077"` or `"local[4]"`, for a new Spark session.
#' @param spark An existing pyspark session in this session's Python, instead of `master`. For sparklyr, see
#'   [tf_config_from_barrier()].
#' @param x An object of one of these functions.
#' @return An object of class `tfmuster_on`, a list of settings. `format()` returns the call that makes it.
#' @section Errors: `tfmuster_error_launch` with the reason `argument`.
#' @seealso [launch()], and `tfmuster_doctor()` for the engines that work here.
#' @export
#' @examplesIf tfmuster_available()
#' on_ssh(c("node1:2", "node2:2"), copy = TRUE)
#' on_slurm("--partition=gpu", "--time=1:00:00", requeue = TRUE)
#' on_sge("-q gpu.q")
#' on_pbs("-l walltime=1:00:00")
#' on_lsf("-q gpu")
#' on_mpi(c("node1:2", "node2:2"))
#' on_spark("spark://node1:7077", "spark.executor.memory=4g")
#' values <- launch(function() Sys.getpid(), workers = 2, on = on_local(), run_dir = tempfile("run"))
on_local <- function(isolated = FALSE, warm = FALSE, oversubscribe = FALSE) {
  new_on("local", list(isolated = isolated, warm = warm, oversubscribe = oversubscribe))
}

#' @rdname on_local
#' @export
on_ssh <- function(hosts = NULL, copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE,
                   warm = FALSE, hosts_from = NULL, min_workers = NULL, rejoin_timeout = 30, grow = NULL) {
  new_on("ssh", list(
    hosts = hosts, copy = copy, files = files, remote_python = remote_python, trust_hosts = trust_hosts,
    warm = warm, hosts_from = hosts_from, min_workers = min_workers, rejoin_timeout = rejoin_timeout,
    grow = grow
  ))
}

#' @rdname on_local
#' @export
on_slurm <- function(..., requeue = FALSE, copy = FALSE, files = character(), remote_python = NULL,
                     trust_hosts = FALSE) {
  new_on("slurm", list(
    backend_options = options_of(...), requeue = requeue, copy = copy, files = files,
    remote_python = remote_python, trust_hosts = trust_hosts
  ))
}

#' @rdname on_local
#' @export
on_sge <- function(..., copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE) {
  on_batch("sge", options_of(...), copy, files, remote_python, trust_hosts)
}

#' @rdname on_local
#' @export
on_pbs <- function(..., copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE) {
  on_batch("pbs", options_of(...), copy, files, remote_python, trust_hosts)
}

#' @rdname on_local
#' @export
on_lsf <- function(..., copy = FALSE, files = character(), remote_python = NULL, trust_hosts = FALSE) {
  on_batch("lsf", options_of(...), copy, files, remote_python, trust_hosts)
}

#' @rdname on_local
#' @export
on_mpi <- function(hosts = NULL, ..., copy = FALSE, files = character(), remote_python = NULL,
                   trust_hosts = FALSE) {
  new_on("mpi", list(
    hosts = hosts, backend_options = options_of(...), copy = copy, files = files,
    remote_python = remote_python, trust_hosts = trust_hosts
  ))
}

#' @rdname on_local
#' @export
on_spark <- function(master = NULL, ..., spark = NULL, copy = FALSE, files = character(),
                     remote_python = NULL, trust_hosts = FALSE) {
  check_session(spark)
  new_on("spark", list(
    master = master, backend_options = options_of(...), spark = spark, copy = copy, files = files,
    remote_python = remote_python, trust_hosts = trust_hosts
  ))
}

on_batch <- function(backend, options, copy, files, remote_python, trust_hosts, call = rlang::caller_env()) {
  new_on(backend, call = call, list(
    backend_options = options, copy = copy, files = files, remote_python = remote_python,
    trust_hosts = trust_hosts
  ))
}

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

new_on <- function(backend, settings, call = rlang::caller_env()) {
  check_settings(settings, call)
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
  command <- tryCatch(rlang::inject(run_python("where_text", !!!where_of(x))), error = function(e) NULL)
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
  where$trust_hosts <- NULL
  # `$` would take `hosts_from` for `hosts`.
  hosts <- where[["hosts"]]
  where["hosts"] <- list(if (!is.null(hosts)) paste(hosts, collapse = ","))
  where$files <- lapply(where$files, as_path)
  where$backend_options <- as.list(where$backend_options)
  where$min_workers <- as_whole(where$min_workers)
  where
}
