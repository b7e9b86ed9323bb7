# Find runs, and the folders in which they are.

# Find a run from a run, its name, or the return value of launch(). `...`: of find_run().
as_run <- function(run, ..., call = rlang::caller_env()) {
  if (inherits(run, "tfmuster_values")) run <- attr(run, "run")
  if (inherits(run, "tfmuster.Run")) {
    # The class of Python, which only the session that has made it can use.
    if (!reticulate::py_is_null_xptr(run)) run <- new_run(format(run$path)) else abort_lost_run(call)
  }
  if (inherits(run, "tfmuster_run")) {
    if (!is_there(run)) abort_removed_run(run, call)
    return(run)
  }
  if (!is.null(run) && !is_text(run)) abort_no_run(run, call)
  found_run(run, NULL, ..., call = call)
}

# If no folder is chosen, the runs of this user in other folders are found, too.
found_run <- function(name, folder, ..., call = rlang::caller_env()) {
  folders <- as_folder(folder, call)
  elsewhere <- is.null(folder) && is.null(getOption("tfmuster.runs"))
  found <- run_python("find_run", as_path(name), folders, elsewhere = elsewhere, ..., call = call)
  new_run(format(found$path))
}

runs_before <- function(age, folder, call = rlang::caller_env()) {
  runs <- run_python("ended_before", age, folder, call = call)
  lapply(runs, function(run) new_run(format(run$path)))
}

abort_lost_run <- function(call) {
  abort_tfmuster(list(
    kind = "error", message = "A Python object of another session can't be used.",
    found = "an object without its Python part",
    fix = "Open the run again: run_list(), or run_open() with its name."
  ), call)
}

abort_removed_run <- function(run, call) {
  abort_tfmuster(list(
    kind = "error", message = "The directory of the run must exist.",
    found = paste("no run in", run$path), fix = "run_list() shows the runs that are there.",
    run = basename(run$path)
  ), call)
}

# The folder, or the folders in which runs are by default.
as_folder <- function(folder, call = rlang::caller_env()) {
  if (is.null(folder)) {
    chosen <- !is.null(getOption("tfmuster.runs"))
    return(if (chosen) runs_folder(call = call) else list("runs", function_runs()))
  }
  if (!is_text(folder)) abort_argument("`folder` must be the path of one folder.", folder, NULL, call)
  as_path(folder)
}

# The folder of new runs.
runs_folder <- function(is_function = FALSE, call = rlang::caller_env()) {
  folder <- getOption("tfmuster.runs") %||% if (is_function) function_runs() else "runs"
  check_arguments(list(tfmuster.runs = folder), c(tfmuster.runs = "name"), call = call)
  as_path(folder)
}

# A package may keep files in the user's cache, if it removes old ones.
function_runs <- function() file.path(tools::R_user_dir("tfmuster", "cache"), "runs")

remove_old_runs <- function(folder) {
  if (is.null(getOption("tfmuster.runs"))) try(run_remove(older_than = "30d", folder = folder), silent = TRUE)
}

abort_no_run <- function(run, call = rlang::caller_env()) {
  if (inherits(run, "tfmuster_runs")) {
    fix <- "Pass one of them: runs[[1]]. run_list() without arguments lists all."
  } else {
    fix <- "run_list() shows their names."
  }
  abort_argument("A run must be what launch() returned, or one run's name or path.", run, fix, call)
}
