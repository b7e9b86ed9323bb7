#' Mark data as a worker's own rows
#'
#' Use it if each worker reads its own part of the data: its own files, its own rows of a table. Pass the
#' result to `fit()`, `evaluate()` or `predict()`, or as `validation_data`. If all workers have the same data,
#' don't use it: `fit()` then gives each worker its rows by itself.
#'
#' Workers can have different numbers of rows. A step trains on the batches of all workers together. A worker
#' that has no more rows continues with empty steps until all workers are done, so every row counts exactly
#' once in loss, gradients, and metrics. The weights equal those of one process on the combined batches.
#'
#' `fit()` and `evaluate()` run as many steps as the worker with the most batches has. `predict()` returns the
#' predictions of this worker's rows. In one process, the data train like unmarked data.
#'
#' @param x This worker's data: an R array, matrix, or data frame, or a list of them; or a Python object: a
#'   `tf.data` dataset, a `keras.utils.PyDataset`, or a Python generator, which yield this worker's batches.
#' @param y Labels, for arrays only.
#' @param sample_weight One weight for each row, for arrays only.
#' @param batch_size Rows of this worker per step, for arrays only; default 32. The global batch is the sum
#'   over all workers.
#' @param shuffle `TRUE` uses a new order in each epoch, for arrays only. Keep the default for `predict()`.
#' @param seed Seed of the order; only with `shuffle`.
#' @return A Python object: a `tf.data` dataset for arrays, else `x`.
#' @section Errors: `tfmuster_error_data` with the field `reason`: an argument does not apply to `x`, or the
#'   numbers of rows differ. Later, from `fit()`: a worker has several devices, or its data do not end
#'   although those of others do.
#' @export
#' @examplesIf tfmuster_available()
#' mine <- own_rows(matrix(runif(40), 20), runif(20), batch_size = 8)
#' class(mine)[1]
#' \dontrun{
#' # Each worker reads its own file:
#' part <- read.csv(sprintf("part-%d.csv", current_task()$index))
#' fit(model, own_rows(part[c("a", "b")], part$label, batch_size = 64), epochs = 3)
#' }
own_rows <- function(x, y = NULL, sample_weight = NULL, batch_size = NULL, shuffle = FALSE, seed = NULL) {
  check_own(x = "any", batch_size = "count", shuffle = "flag", seed = "share", kind = "data")
  if (!is_python(x) || inherits(x, "numpy.ndarray")) {
    x <- as_data(x)
    y <- as_labels(y)
  }
  run_python(
    "own_rows", x, y, as_weights(sample_weight),
    batch_size = as_whole(batch_size), shuffle = shuffle, seed = as_whole(seed)
  )
}
