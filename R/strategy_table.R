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
  share_variables()
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
#' @examplesIf tfmuster_available()
#' # In one process. As a script it runs on several workers, by launch().
#' tf <- reticulate::import("tensorflow")
#' keras <- reticulate::import("keras")
#' `%as%` <- reticulate::`%as%`
#' strategy <- strategy("one_device")
#' with(strategy$scope(), {
#'   line <- keras$Sequential(list(keras$Input(reticulate::tuple(1L)), keras$layers$Dense(1L)))
#'   optimizer <- keras$optimizers$SGD(0.1)
#'   optimizer$build(line$trainable_variables)
#' })
#' train_on <- function(batch) {
#'   with(tf$GradientTape() %as% tape, {
#'     loss <- tf$reduce_mean(tf$square(tf$subtract(line(batch[[1]]), batch[[2]])))
#'   })
#'   optimizer$apply(tape$gradient(loss, line$trainable_variables), line$trainable_variables)
#'   loss
#' }
#' x <- tf$constant(matrix(runif(100), ncol = 1), tf$float32)
#' y <- tf$add(tf$multiply(x, 3), 1)
#' rows <- tf$data$Dataset$from_tensor_slices(reticulate::tuple(x, y))
#' batches <- rows$`repeat`()$batch(20L)
#' step <- distributed_step(strategy, train_on)
#' iterator <- reticulate::as_iterator(strategy$experimental_distribute_dataset(batches))
#' for (number in 1:100) loss <- step(iterator)
#' as.numeric(loss$numpy())
distributed_step <- function(strategy, step_fn, reduce = "mean") {
  check_own(strategy = "strategy", step_fn = "fn", reduce = "string", kind = "strategy")
  run_python("distributed_step", strategy, step_fn, reduce = reduce)
}
