#' List the strategies, and whether each would work here
#'
#' Checks this machine and TF_CONFIG, without starting TensorFlow.
#'
#' @return A data frame with a row per strategy: `strategy`, its name for [strategy()]; `fit`, the function
#'   that trains a Keras 3 model under it; `custom_loop`, whether it supports a loop with
#'   [distributed_step()]; `here`, whether it would work on this machine; and `why`, the devices it would use,
#'   or what is missing.
#' @export
#' @examplesIf tfmuster_available(tensorflow = FALSE)
#' strategy_table()
strategy_table <- function() {
  share_tf_config()
  rows <- run_python("strategy_table")
  columns <- c("strategy", "fit", "custom_loop", "here", "why")
  table <- do.call(rbind, lapply(rows, function(row) as.data.frame(row)[columns]))
  structure(table, class = c("tfmuster_strategies", "data.frame"))
}

#' @export
print.tfmuster_strategies <- function(x, ...) {
  # The reasons are sentences: below each row, not beside it.
  rows <- utils::capture.output(print(
    structure(x[setdiff(names(x), "why")], class = "data.frame"), right = FALSE, row.names = FALSE
  ))
  cli::cat_line(rows[1])
  for (i in seq_len(nrow(x))) {
    cli::cat_line(rows[i + 1])
    cli::cat_line(cli::col_grey(strwrap(x$why[i] %||% "", getOption("width"), indent = 4, exdent = 4)))
  }
  invisible(x)
}

#' @export
`[.tfmuster_strategies` <- function(x, ...) {
  class(x) <- "data.frame"
  x[...]
}

#' Compile a step of a custom training loop
#'
#' Compiles a function, runs it on every replica of a strategy, and reduces the replicas' values. Create the
#' model and the optimizer in `with(strategy$scope(), {...})`, and build the optimizer there.
#'
#' @param strategy A strategy with a single replica in each process: `"default"`, `"one_device"`,
#'   `"multi_worker_mirrored"` with one device per worker, or `"parameter_server"`. With several replicas,
#'   TensorFlow calls the function in other threads, where R can't run; this raises an error.
#' @param step_fn A function that trains on one replica's batch with TensorFlow operations, and returns a
#'   tensor, such as the loss.
#' @param reduce `"mean"` or `"sum"`: reduction of the replicas' values.
#' @return A Python function of an iterator,
#'   `reticulate::as_iterator(strategy$experimental_distribute_dataset(data))`, that takes the next batch
#'   and returns the reduced values. With parameter servers it has `iterator(dataset_fn)`, which makes such
#'   an iterator, and `join()`, which waits for all steps.
#' @section Errors: `tfmuster_error_strategy`.
#' @export
#' @examples
#' \dontrun{
#' # For a complete program, see examples/custom_loop.R.
#' step <- distributed_step(strategy, function(batch) train_on(batch))
#' for (number in 1:100) loss <- step(iterator)
#' }
distributed_step <- function(strategy, step_fn, reduce = "mean") {
  run_python("distributed_step", strategy, step_fn, reduce = reduce)
}
