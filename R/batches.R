#' Batches of arrays, the same for every number of workers
#'
#' Makes an input pipeline for `fit()` from arrays in memory. Each epoch is one full, seeded permutation of
#' the rows, cut into global batches. With several workers, each gathers only its own rows of a batch.
#'
#' @inheritParams file_batches
#' @param x An array or matrix with one row for each example; or a Python array, such as `mnist()$x_train`.
#' @param y One label for each example.
#' @param shuffle Use a new full permutation in each epoch; `FALSE` keeps the order.
#' @param one_hot Return labels as float32 of shape (batch, 10), for `"categorical_crossentropy"`.
#' @return A Python object, a `tf.data.Dataset`.
#' @section Errors: `tfmuster_error_data` with the field `reason`: the lengths differ, there are no rows, or
#'   the batch does not suit.
#' @export
#' @examplesIf tfmuster_available()
#' digits <- synthetic(train = 300, test = 100)
#' batches(digits$x_train, digits$y_train, batch_size = 100, seed = 1)
batches <- function(x, y, batch_size, seed, shuffle = TRUE, strategy = NULL, steps = NULL, repeated = FALSE,
                    drop_remainder = FALSE, one_hot = FALSE, first_epoch = 0) {
  check_own(
    x = "any", y = "any", batch_size = "positive", seed = "number", shuffle = "flag",
    strategy = "strategy?", steps = "count", repeated = "flag", drop_remainder = "flag", one_hot = "flag",
    first_epoch = "number", kind = "data"
  )
  x <- as_data(x)
  y <- as_labels(y)
  run_python(
    "batches", x, y, as_whole(batch_size), seed = as_whole(seed), shuffle = shuffle, strategy = strategy,
    steps = as_whole(steps), repeated = repeated, drop_remainder = drop_remainder, one_hot = one_hot,
    first_epoch = as_whole(first_epoch)
  )
}
