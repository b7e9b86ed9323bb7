#' Which strategy does what, and which would work here
#'
#' Looks at this machine and at TF_CONFIG, without starting TensorFlow.
#'
#' @return A data frame with a row for each strategy: `strategy`, its name for [strategy()]; `fit`, what
#'   trains a Keras 3 model under it; `custom_loop`, whether a loop with [distributed_step()] does; `here`,
#'   whether it would work on this machine; and `why`: on what devices, or what is missing.
#' @export
#' @examplesIf tfmuster_available(tensorflow = FALSE)
#' strategy_table()
strategy_table <- function() {
  share_tf_config()
  rows <- run_python("strategy_table")
  columns <- c("strategy", "fit", "custom_loop", "here", "why")
  table <- do.call(rbind, lapply(rows, function(row) as.data.frame(row)[columns]))
  table$why <- vapply(table$why, in_r, "", USE.NAMES = FALSE)
  table
}

#' A step of a training loop of one's own
#'
#' Runs a function on every replica of a strategy, compiled, and reduces what the replicas return. Make
#' model and optimizer in `with(strategy$scope(), {...})`, and build the optimizer there.
#'
#' @param strategy Any strategy. From R, one with a single replica in each process: `"default"`,
#'   `"one_device"`, `"multi_worker_mirrored"` with one device per worker, or `"parameter_server"`. For
#'   several replicas TensorFlow calls the function in threads of its own, where R can't run: an error.
#' @param step_fn A function of one replica's batch, of TensorFlow operations, that trains on it and
#'   returns a tensor, such as the loss.
#' @param reduce `"mean"` or `"sum"`: how the replicas' values become one.
#' @return A Python function of an iterator,
#'   `reticulate::as_iterator(strategy$experimental_distribute_dataset(data))`, that takes the next batch
#'   and returns the reduced values. With parameter servers it has `iterator(dataset_fn)`, which makes such
#'   an iterator, and `join()`, which waits for all steps.
#' @section Errors: `tfmuster_error_strategy`.
#' @export
#' @examples
#' \dontrun{
#' # examples/custom_loop.R is a whole program.
#' step <- distributed_step(strategy, function(batch) train_on(batch))
#' for (number in 1:100) loss <- step(iterator)
#' }
distributed_step <- function(strategy, step_fn, reduce = "mean") {
  run_python("distributed_step", strategy, step_fn, reduce = reduce)
}
