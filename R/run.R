# A run as an R value: the path of its directory. What it is doing is read from there each time.

new_run <- function(path) structure(list(path = path), class = "tfmuster_run")

# The core gets its own object of the run.
#' @exportS3Method reticulate::r_to_py tfmuster_run
r_to_py.tfmuster_run <- function(x, convert = FALSE) { # nolint: object_name_linter.
  run_python("Run", unclass(x)$path)
}

# What `run$` has: facts of Python's Run, and the functions run_*() for this run, such as run$status().
run_facts <- c("path", "name", "goes_on", "model_path")
run_verbs <- c("status", "history", "logs", "model", "values", "stacks", "wait", "stop", "resume", "remove")

#' @export
`$.tfmuster_run` <- function(x, name) {
  if (name == "path") {
    unclass(x)$path
  } else if (name %in% run_facts) {
    do.call("$", list(run_python("Run", unclass(x)$path), name))
  } else if (name %in% run_verbs) {
    function(...) get(paste0("run_", name))(x, ...)
  } else {
    has <- paste(c(run_facts, paste0(run_verbs, "()")), collapse = ", ")
    abort_argument("A run must have what is asked of it.", name, paste("It has", has))
  }
}

#' @export
`[[.tfmuster_run` <- function(x, i) do.call("$", list(x, i))

#' @exportS3Method utils::.DollarNames tfmuster_run
.DollarNames.tfmuster_run <- function(x, pattern = "") { # nolint: object_name_linter.
  grep(pattern, c(run_facts, paste0(run_verbs, "()")), value = TRUE)
}

#' Use a run as an R value
#'
#' A run is the path of its directory: `list(path = )` of the class `tfmuster_run`. So you can save it with
#' [saveRDS()], return it from a target of the package targets, or keep it in the state of a Shiny app. Other
#' sessions on this machine can use it. All functions read what the run is doing from its directory.
#'
#' `run$` completes its facts (`path`, `name`, `goes_on`, `model_path`), and `run_*()` for this run:
#' `run$status()`, `run$history()`, `run$logs(worker = 0)`, `run$stop()`.
#'
#' `print()` shows a run as it is now, and `plot()` its training curves, see [plot.tfmuster_history()].
#' `as.data.frame()` and `summary()` return its tasks; `tidy()` and `glance()`, from the package generics, its
#' epochs and one row for the whole run.
#'
#' With the package promises, a run is a promise: `promises::then(run, ...)`, or a run returned to Shiny, is
#' resolved when the run ends, with the values of a function ([run_values()]) or with the run of a script. A
#' failure rejects it, with the error that [launch()] raises.
#'
#' @param x,object A run, from [launch()] or [run_open()].
#' @param ... Not used.
#' @return `format()`: the run's name and state. `as.data.frame()`: one row per task, with `task`,
#'   `state`, `host`, `pid`, `exit_code`, and `doing` (a description); for a running task that reports
#'   them, also `epoch`, `epochs`, `step`, `steps`, `steps_per_second`, `images_per_second`, `sum_share`,
#'   `wait_share` and `waits_for`, see [run_status()]; otherwise `NA`. `summary()`: a list with the row of
#'   `glance()` in `run`, the tasks in `tasks`, and the first and last value of each metric in `metrics`.
#'   `tidy()`: a data frame with one row per epoch and metric. `glance()`: a data frame with one row:
#'   `name`, `state`, `tasks` (a count), `restarts`, `started`, `seconds`, `epochs`, and the last value of
#'   each metric.
#' @seealso [run_status()], [launch()]
#' @name tfmuster_run
#' @examplesIf tfmuster_available()
#' train <- function(strategy) {
#'   train_mnist("softmax", synthetic(train = 640, test = 64), strategy = strategy, epochs = 2)$history
#' }
#' values <- launch(train, workers = 2, run_dir = tempfile("run"), quiet = TRUE)
#' run <- run_open(attr(values, "run")$path)
#' run
#' as.data.frame(run)[1:4]
#' generics::glance(run)
#' generics::tidy(run)
#'
#' # In another session:
#' file <- tempfile(fileext = ".rds")
#' saveRDS(run, file)
#' run_history(readRDS(file))
NULL

#' @export
format.tfmuster_run <- function(x, ...) {
  paste0("<run ", basename(x[["path"]]), ": ", if (is_there(x)) run_status(x)$state else "removed", ">")
}

#' @export
print.tfmuster_run <- function(x, ...) {
  if (!is_there(x)) {
    cli::cat_line(cli::style_bold("Run "), basename(x[["path"]]), " ", cli::col_red("removed"))
    cat_fact("run", paste(x[["path"]], "is no longer there"))
    return(invisible(x))
  }
  facts <- run_python("summary", x)
  cli::cat_line(cli::style_bold("Run "), basename(facts$run), " ", in_state_color(facts$state))
  for (label in setdiff(names(facts), "state")) {
    cat_fact(label, facts[[label]])
  }
  invisible(x)
}

# A line with a label, or several if the console is narrow.
cat_fact <- function(label, text) {
  lines <- strwrap(text, max(cli::console_width() - 16, 20))
  labels <- c(label, rep("", length(lines) - 1))
  cli::cat_line("  ", cli::col_grey(format(labels, width = 14)), lines)
}

# A batch job that waits in a queue has no run.json yet.
is_there <- function(run) {
  any(file.exists(file.path(run[["path"]], c("run.json", "status.json", "logs", "call"))))
}

in_state_color <- function(state) {
  color <- switch(sub(",.*", "", state),
    done = cli::col_green,
    failed = ,
    lost = cli::col_red,
    cli::col_cyan
  )
  color(state)
}

# An object of Python's class Run.
#' @exportS3Method print tfmuster.Run
print.tfmuster.Run <- function(x, ...) { # nolint: object_name_linter.
  print(as_run(x))
  invisible(x)
}

#' @export
as.data.frame.tfmuster_run <- function(x, ...) as_rows(run_python("task_rows", as_run(x)))

#' @export
summary.tfmuster_run <- function(object, ...) {
  history <- as.data.frame(run_history(object))
  of_metric <- function(rows) {
    ends <- rows$value[c(1, nrow(rows))]
    data.frame(metric = rows$metric[1], data = rows$data[1], first = ends[1], last = ends[2])
  }
  metrics <- lapply(split(history, ~ factor(metric, unique(metric)) + data, drop = TRUE), of_metric)
  structure(
    list(
      path = object[["path"]], run = glance.tfmuster_run(object), tasks = as.data.frame(object),
      metrics = do.call(rbind, c(unname(metrics), list(make.row.names = FALSE)))
    ),
    class = "summary.tfmuster_run"
  )
}

#' @export
print.summary.tfmuster_run <- function(x, digits = 4, ...) {
  run <- x$run
  cli::cat_line(cli::style_bold("Run "), run$name, " ", in_state_color(run$state))
  cli::cat_line(cli::col_grey(
    "started ", format(run$started), ", ", in_time(run$seconds), ", ", run$epochs, " epochs, ", run$restarts,
    " restarts"
  ))
  known <- vapply(x$tasks, function(column) !all(is.na(column)), logical(1))
  print(x$tasks[known], row.names = FALSE, right = FALSE, digits = digits)
  if (!is.null(x$metrics)) {
    # Losses, shares and speeds in one column: each with its own digits.
    in_digits <- function(values) vapply(signif(values, digits), format, "", digits = digits, big.mark = ",")
    x$metrics[c("first", "last")] <- lapply(x$metrics[c("first", "last")], in_digits)
    print(x$metrics, row.names = FALSE, right = FALSE)
  }
  invisible(x)
}

in_time <- function(seconds) {
  if (is.na(seconds)) "not timed" else format(as.difftime(round(seconds, 1), units = "secs"))
}

#' @importFrom generics tidy
#' @export
generics::tidy

#' @importFrom generics glance
#' @export
generics::glance

#' @exportS3Method generics::tidy tfmuster_run
tidy.tfmuster_run <- function(x, ...) as.data.frame(run_history(x))

#' @exportS3Method generics::tidy tfmuster_values
tidy.tfmuster_values <- function(x, ...) tidy.tfmuster_run(as_run(x))

#' @exportS3Method generics::tidy tfmuster_history
tidy.tfmuster_history <- function(x, ...) as.data.frame(x)

#' @exportS3Method generics::tidy tfmuster_training
tidy.tfmuster_training <- function(x, ...) as.data.frame(x$history)

#' @exportS3Method generics::glance tfmuster_run
glance.tfmuster_run <- function(x, ...) {
  row <- run_python("glance_row", as_run(x))
  metrics <- row$metrics
  row <- as_rows(list(row[setdiff(names(row), "metrics")]))
  row$started <- as_time(row$started)
  if (length(metrics)) cbind(row, as.data.frame(metrics, check.names = FALSE)) else row
}

#' @exportS3Method generics::glance tfmuster_values
glance.tfmuster_values <- function(x, ...) glance.tfmuster_run(as_run(x))

#' @exportS3Method generics::glance tfmuster_training
glance.tfmuster_training <- function(x, ...) {
  data.frame(
    epochs = length(unique(x$history$epoch)), test_accuracy = x$test_accuracy, test_loss = x$test_loss,
    replicas = x$replicas, global_batch_size = x$global_batch_size, seconds = x$seconds
  )
}

# Seconds between two looks at a run that a promise waits for.
promise_seconds <- 0.2

#' @exportS3Method promises::as.promise tfmuster_run
as.promise.tfmuster_run <- function(x) { # nolint: object_name_linter.
  promises::promise(function(resolve, reject) {
    look <- function() {
      tryCatch(
        if (x$goes_on) {
          later::later(look, promise_seconds)
        } else if (is_function_run(x)) {
          resolve(run_values(x))
        } else {
          check_run(x)
          resolve(x)
        },
        error = reject
      )
    }
    look()
  })
}

# A data frame of rows of the core, in which NULL is a missing value.
as_rows <- function(rows) {
  if (!length(rows)) {
    return(data.frame())
  }
  column <- function(name) {
    values <- lapply(rows, function(row) row[[name]] %||% NA)
    unlist(values)
  }
  as.data.frame(lapply(rlang::set_names(names(rows[[1]])), column), stringsAsFactors = FALSE)
}

# Times of the core are texts in UTC; a table shows them in local time.
as_time <- function(text) {
  utc <- as.POSIXct(text %||% NA_character_, format = "%Y-%m-%dT%H:%M:%OS", tz = "UTC")
  structure(utc, tzone = "")
}
