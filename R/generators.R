# Generators: R functions that return one batch after another.

is_generator <- function(x) is.function(x) || inherits(x, "rpytools.generator.RGenerator")

# A Python iterator over the batches of an R function, which python_data.py calls in R's thread.
as_generator <- function(source, call = rlang::caller_env()) {
  run_python("ready_for_generators", call = call)
  if (!is.function(source)) {
    return(source)
  }
  batch <- 0
  run_python("Calls", call = call, function() {
    batch <<- batch + 1
    # Python would keep only the text of the condition.
    withCallingHandlers(as_batch(source(), batch, call), error = function(e) the$generator_error <- e)
  })
}

# Convert what a generator returned: list(x, y), list(x, y, weights), list(x), a Python tuple, or NULL.
as_batch <- function(given, number, call) {
  if (is.null(given) || is_python(given)) {
    return(given)
  }
  if (!is.list(given) || is.data.frame(given) || !length(given) %in% 1:3) {
    what <- if (is.list(given)) paste("a list of", length(given)) else in_words(given)
    abort_data(
      "A generator must return list(x, y) from each call, and NULL after the last batch.",
      paste0("batch ", number, " is ", what),
      "Write function() list(x[rows, ], y[rows]).", "batch-shape", call
    )
  }
  c(
    list(as_data(given[[1]], call)), if (length(given) > 1) list(as_labels(given[[2]], call)),
    lapply(given[-(1:2)], as_weights, call = call)
  )
}
