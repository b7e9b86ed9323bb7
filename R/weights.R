# Weights of rows, as Keras takes them.

# Convert weights of rows: a vector, or a list of them for several outputs.
as_weights <- function(weights, call = rlang::caller_env()) {
  if (is.null(weights)) {
    return(NULL)
  }
  if (is.data.frame(weights)) weights <- as_matrix(weights, call)
  if (is.list(weights)) {
    return(lapply(weights, as_weights, call = call))
  }
  as_numbers(weights, "Weights", call)
}

# `x` and `weights`: converted.
check_weights <- function(weights, x, what, call) {
  if (length(unique(c(rows_of(x), rows_of(weights)))) > 1) {
    abort_data(
      paste0("There must be one weight for each row of the data", what, "."),
      paste0(in_words(x), " as data, ", in_words(weights), " as weights"),
      "Compare dim() and length() of both.", "lengths-differ", call
    )
  }
}

check_batch_weights <- function(weights, x, call) {
  if (is.null(weights) || !(is_generator(x) || is_dataset(x))) {
    return(invisible())
  }
  place <- if (is_generator(x)) {
    "Return list(x, y, weights) from the generator."
  } else {
    "Make weights the third part of the dataset's batches."
  }
  abort_data(
    "The weights of generators and datasets come with their batches.",
    paste("weights:", in_words(weights)), place,
    "batch-weights", call
  )
}
