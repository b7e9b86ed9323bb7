#' Get the state, output, history, and model of a run
#'
#' A run is a job that [launch()] started, with its run directory. With `wait = FALSE` it keeps running after
#' your session ends, and any session on this machine can inspect and stop it.
#'
#' If no run in `runs` has the name, your runs in other folders are found, too. `run_stop()`, `run_resume()`
#' and `run_remove()` take no part of a name. They find a run by its full name, and in `runs` also by the
#' `name` that [launch()] got. `run_remove()` removes what tfmuster has written: other files stay, and so do
#' checkpoints and models in a `run_dir` of yours.
#'
#' `print()` of a run shows what each worker is currently doing. In RStudio, `run_in_rstudio()` follows the
#' output in a background job with a bar of the epochs; [launch()] does so with `wait = FALSE`.
#'
#' @param run A run; the return value of [launch()]; a run's name, or a part of the name, in the folder
#'   `runs`; or the path of a run directory. Default: the newest run in the folder `runs`.
#' @param worker The index of one worker, from 0 as in TF_CONFIG, or a task's name such as `"chief 0"`.
#'   Default: all tasks.
#' @param lines Number of last lines of each worker, at least 1. Default: all lines.
#' @param all_output `TRUE` returns each line of each worker. By default, a line that all workers have printed
#'   alike is returned once, with `[2 workers]` before it.
#' @param follow `TRUE` prints new lines until the run ends. An interrupt stops the printing, but not the run.
#' @param older_than `run_remove()`: an age, such as `"12h"`, `"30d"` or `"8w"`; removes all your runs of
#'   `folder` that ended longer ago.
#' @param timeout Seconds to wait; `NULL` waits without limit.
#' @param save `run_stop()`: `TRUE` lets all workers write a checkpoint after the same step first. Then the
#'   state is `"preempted"`, and `run_resume()` resumes at that step. The program trains with
#'   [callback_checkpoint()].
#' @param ... Names of the runs to list, or parts of names. Default: all runs.
#' @param folder Folder of the runs. Default: the option `tfmuster.runs`, otherwise the folder `runs` and that
#'   of functions' runs, see [launch()].
#' @param all `TRUE` also lists your runs in other folders.
#' @param name A run's name, a part of it, or its path. Default: the newest run. If several runs match, the
#'   newest is taken, and a line says so. If no folder is chosen, your runs in other folders are found, too.
#' @return `run_open()`: the run, see [tfmuster_run]. `run_status()`: a list with `state`, `restarts`, and
#'   `tasks`. For a running task that reports its activity, `doing` is a description; `progress` is a list
#'   with `phase` and, if known, `epoch`, `epochs`, `step`, `steps`, `metrics`, `steps_per_second`,
#'   `images_per_second`, `sum_share`, `wait_share`, `waits_for`, and `waiting`. The shares are parts of
#'   the time, from 0 to 1: what the task spent in sums with the others, and what of it was waiting for
#'   them. `run_logs()`, invisibly with `follow`: lines of class `tfmuster_lines`, which print unchanged.
#'   `run_history()`: a data frame like the `history` of [train_mnist()], for any program, with one row
#'   per epoch and metric. The epochs of several calls of `fit()` follow each other. `run_model()`: the
#'   Keras model saved as `model.keras` in the run directory by [model_to_file()], or else the first model
#'   among the values that a function has returned.
#'   `run_stacks()`: for each worker that responds, the lines of its Python stacks and, if known, R's
#'   calls. `run_wait()` and `run_stop()`, invisibly: the run, when it has ended or the time is up.
#'   `run_resume()`, invisibly: the run, when it has been launched again as before and its workers run.
#'   `run_values()` waits, and returns the values of a function as [launch()] does. `run_list()`: a list
#'   of runs, which prints as a table; `as.data.frame()` returns the table. `run_remove()`, invisibly: for
#'   each removed run, the files in its directory that are not the run's, which stay. `run_in_rstudio()`,
#'   invisibly: RStudio's name of the job.
#' @section Errors: `tfmuster_error_error`: the run or task does not exist, the run has no model or is not of
#'   a function, the run has not ended or is another user's (`run_remove()`), it can't be saved now
#'   (`run_stop()`), or an argument is invalid. `tfmuster_error_launch`: the run has not ended or its program
#'   has finished (`run_resume()`). `run_values()` also raises the errors of [launch()]. `run_wait()` warns
#'   with `tfmuster_warning` when the time is up.
#' @seealso [tfmuster_run], [plot.tfmuster_history()] and [run_view()]
#' @export
#' @examplesIf tfmuster_available()
#' folder <- tempfile("runs")
#' count <- function(n) for (i in seq_len(n)) cat("counted to", i, "\n")
#' run <- launch(count, 3, workers = 2, run_dir = file.path(folder, "first"), wait = FALSE)
#' run
#' run_values(run)
#' run_logs(run, worker = 0)
#' run_list(folder = folder)
#' if (rlang::is_installed("rstudioapi") && rstudioapi::isAvailable()) run_in_rstudio(run)
#' \donttest{
#' # Stop a run, resume it, and remove it:
#' wait <- function() Sys.sleep(600)
#' run <- launch(wait, workers = 1, run_dir = file.path(folder, "second"), wait = FALSE)
#' # The stacks of the workers that respond: not those that are starting.
#' run_stacks(run)
#' run_stop(run)
#' run_status(run)$state
#' run_resume(run)
#' run_wait(run_stop(run))
#' run_remove(run)
#' run_list(folder = folder)
#'
#' # The model that a function has returned:
#' train <- function(strategy) {
#'   train_mnist("softmax", synthetic(train = 640, test = 64), strategy = strategy, epochs = 1)$model
#' }
#' values <- launch(train, workers = 2, run_dir = file.path(folder, "third"), quiet = TRUE)
#' summary(run_model(values))
#' run_history(values)
#' }
run_open <- function(name = NULL, folder = NULL) {
  if (!is.null(name) && !is_text(name)) abort_no_run(name)
  found_run(name, folder)
}

#' @rdname run_open
#' @export
run_status <- function(run = NULL) run_python("Run.status", as_run(run))

#' @rdname run_open
#' @export
run_logs <- function(run = NULL, worker = NULL, lines = NULL, follow = FALSE, all_output = FALSE) {
  check_own(follow = "flag", all_output = "flag", kind = "launch")
  run <- as_run(run)
  check_part(worker, lines)
  task <- if (is.numeric(worker)) paste("worker", as_whole(worker)) else worker
  if (!follow) {
    shown <- run_python("log_lines", run, task, lines = as_whole(lines), all_output = all_output)
    return(structure(as.character(unlist(shown)), class = "tfmuster_lines"))
  }
  all <- follower(run, task, all_output)()
  invisible(structure(all, class = "tfmuster_lines"))
}

# A function that prints the new lines of a run until it has trained `share` of its epochs, or to its end, and
# returns them.
follower <- function(run, task = NULL, all_output = FALSE) {
  tail <- run_python("Tail", run, task, all_output = all_output)
  function(share = Inf) {
    all <- character()
    repeat {
      # Sleep in R and not in Python, so that R handles an interrupt.
      unfinished <- tail$unfinished()
      new <- as.character(unlist(tail$new_lines(last = !unfinished)))
      for (line in new) cat(line, "\n", sep = "")
      utils::flush.console()
      all <- c(all, new)
      if (!unfinished || (is.finite(share) && share_of_epochs(run_status(run)$tasks) >= share)) break
      Sys.sleep(0.2)
    }
    invisible(all)
  }
}

share_of_epochs <- function(tasks) {
  shares <- vapply(tasks, function(task) {
    at <- task$progress
    if (is.null(at$epochs)) {
      return(0)
    }
    ((at$epoch %||% 1) - 1 + (at$step %||% 0) / (at$steps %||% Inf)) / at$epochs
  }, 0)
  max(shares, 0)
}

#' @rdname run_open
#' @export
run_history <- function(run = NULL) as_history(run_python("Run.history", as_run(run)))

#' @rdname run_open
#' @export
run_model <- function(run = NULL) {
  run <- as_run(run)
  file <- format(run$model_path)
  if (!file.exists(file)) {
    if (is_function_run(run) && !is.null(model <- returned_model(run))) {
      return(model)
    }
    save <- "model_to_file(model, file.path(Sys.getenv(\"TFMUSTER_RUN_DIR\"), \"model.keras\"))"
    abort_tfmuster(list(
      kind = "error", message = paste("The run", run$name, "has no model."),
      found = sprintf("no %s; the run is %s", file, run_status(run)$state),
      fix = if (is_function_run(run)) {
        paste0(
          "A model that the function returns is in its values:\nrun_values(run)[[\"worker 0\"]]\n",
          "Otherwise, save it on every worker:\n", save
        )
      } else {
        paste0("Save it in the program, on every worker:\n", save)
      },
      run = run$name
    ))
  }
  run_python("Run.model", run)
}

#' @rdname run_open
#' @export
run_stacks <- function(run = NULL) {
  texts <- run_python("Run.stacks", as_run(run))
  lapply(texts, function(text) structure(strsplit(text, "\n", fixed = TRUE)[[1]], class = "tfmuster_lines"))
}

#' @rdname run_open
#' @export
run_wait <- function(run = NULL, timeout = NULL) {
  run <- as_run(run)
  check_timeout(timeout)
  state <- run_python("Run.wait", run, timeout)$state
  if (run$goes_on) {
    warn_tfmuster(sprintf("The run %s is still %s after %g seconds.", run$name, state, timeout))
  }
  invisible(run)
}

#' @rdname run_open
#' @export
run_values <- function(run = NULL) {
  run <- as_run(run)
  if (!is_function_run(run)) {
    abort_tfmuster(list(
      kind = "error", message = "Only a run of an R function has values.",
      found = paste0("the run ", run$name, " of `", run_python("summary", run)$command, "`"),
      fix = "For a script, use run_history(), run_logs(), or run_model().", run = run$name
    ))
  }
  run_wait(run)
  check_run(run)
  values_of(run)
}

# Raise the failure of a run that has failed.
check_run <- function(run, call = rlang::caller_env()) {
  explain <- function(error) failure_of(error, if (is_function_run(run)) run$path, shown = FALSE)
  run_python("Run.check", run, explain = explain, call = call)
}

#' @rdname run_open
#' @export
run_stop <- function(run = NULL, timeout = 10, save = FALSE) {
  run <- as_run(run, changes = TRUE)
  check_timeout(timeout)
  check_own(save = "flag", kind = "launch")
  run_python("Run.stop", run, timeout, save = save)
  invisible(run)
}

#' @rdname run_open
#' @export
run_resume <- function(run = NULL) {
  run <- as_run(run, changes = TRUE)
  run_python("Run.resume", run)
  invisible(run)
}

#' @rdname run_open
#' @export
run_list <- function(..., folder = NULL, all = FALSE) {
  wanted <- c(...)
  check_own(all = "flag", kind = "launch")
  paths <- as.character(run_python("run_paths", as_folder(folder), all = all))
  if (length(wanted)) {
    fits <- lapply(wanted, function(part) grepl(part, basename(paths), fixed = TRUE))
    paths <- paths[Reduce(`|`, fits)]
  }
  structure(
    lapply(rlang::set_names(paths, basename(paths)), new_run),
    class = "tfmuster_runs"
  )
}

#' @rdname run_open
#' @export
run_remove <- function(run, older_than = NULL, folder = NULL) {
  check_own(folder = "name")
  # NULL would mean the newest run.
  if (!missing(run) && is.null(run)) abort_no_run(run)
  if (missing(run) == is.null(older_than)) {
    message <- "`run` or `older_than` must say which runs to remove."
    found <- if (is.null(older_than)) "neither of them" else "both of them"
    abort_tfmuster(list(kind = "error", message = message, found = found, fix = "Give one of them."))
  }
  runs <- if (missing(run)) {
    runs_before(older_than, as_folder(folder))
  } else if (is_text(run)) {
    list(found_run(run, folder, changes = TRUE))
  } else {
    list(as_run(run, changes = TRUE))
  }
  names <- vapply(runs, function(run) run$name, "")
  left <- lapply(runs, function(run) as.character(unlist(run_python("Run.remove", run))))
  invisible(rlang::set_names(left, names))
}

#' @rdname run_open
#' @export
run_in_rstudio <- function(run = NULL) {
  run <- as_run(run)
  if (!has_jobs_pane()) {
    abort_tfmuster(list(
      kind = "launch", message = "This needs RStudio and the package rstudioapi.",
      found = "a session without them", fix = "Use run_logs(run, follow = TRUE) in this session.",
      reason = "rstudio"
    ))
  }
  path <- run$path
  script <- tempfile("run-", fileext = ".R")
  # RStudio shows as progress how many sections of the script have run.
  parts <- 20
  part <- seq_len(parts)
  writeLines(c(
    sprintf("follow <- tfmuster:::follower(tfmuster::run_open(%s))", encodeString(path, quote = "\"")),
    rbind(sprintf("# %d of %d ----", part, parts), sprintf("follow(%d / %d)", part, parts)),
    "# ended ----", "follow()"
  ), script)
  invisible(rstudioapi::jobRunScript(script, name = basename(path), workingDir = getwd()))
}

# Whether this is RStudio, or another editor with its pane of background jobs.
has_jobs_pane <- function() {
  # The editor's own name for what jobRunScript() calls.
  rlang::is_installed("rstudioapi") && rstudioapi::isAvailable() && rstudioapi::hasFun("runScriptJob")
}

# Check the arguments that select a part of the output.
check_part <- function(worker, lines, call = rlang::caller_env()) {
  if (!is.null(worker) && !is_text(worker) && !is_number(worker)) {
    message <- "`worker` must be one worker's index or one task's name."
    abort_argument(message, worker, "NULL shows all of them.", call)
  }
  if (!is.null(lines) && !(is_number(lines) && lines == trunc(lines) && lines >= 1)) {
    message <- "`lines` must be a whole number of at least 1."
    abort_argument(message, lines, "NULL shows all of them.", call)
  }
}

# Only runs of R functions have a call file.
is_function_run <- function(run) dir.exists(call_folder(run$path))

check_timeout <- function(timeout, call = rlang::caller_env()) {
  if (!is.null(timeout) && !(is_number(timeout) && timeout >= 0)) {
    abort_argument("`timeout` must be a number of seconds.", timeout, "NULL waits without limit.", call)
  }
}

#' @export
print.tfmuster_lines <- function(x, ...) {
  cli::cat_line(unclass(x))
  invisible(x)
}

#' @export
`[.tfmuster_lines` <- function(x, i) structure(NextMethod(), class = "tfmuster_lines")
