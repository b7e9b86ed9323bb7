# Convert R data to what a Keras model takes. Anything else is refused before Keras sees it: Keras reports
# such data late, in Python's words, or not at all.

# Convert and check data with its labels.
as_examples <- function(model, x, y, weights = NULL, what = "", call = rlang::caller_env()) {
  check_batch_weights(weights, x, call)
  if (is_generator(x)) {
    if (!is.null(y)) {
      abort_data(
        paste0("A generator returns its labels", what, " with its data."), paste("`y`:", in_words(y)),
        "Omit `y`, and return list(x, y) from the generator.", "generator-labels", call
      )
    }
    return(list(x = as_generator(x, call), y = NULL, sample_weight = NULL))
  }
  x <- as_data(x, call)
  if (is.null(y) && !is.null(rows_of(x)) && needs_labels(model)) {
    abort_data(
      paste0("This model's loss needs labels", what, ", the argument `y`."),
      paste("no `y` with", in_words(x)),
      "Pass one label for each row of `x`; only a dataset contains its labels.", "no-labels", call
    )
  }
  y <- as_labels(y, call)
  rows <- c(rows_of(x), rows_of(y))
  if (length(unique(rows)) > 1) {
    abort_data(
      paste0("There must be one label for each row of the data", what, "."),
      paste0(in_words(x), " as data, ", in_words(y), " as labels"),
      "Compare dim() and length() of both. A plain vector as data has one column: matrix() gives it more.",
      "lengths-differ", call
    )
  }
  check_columns(model, x, call)
  check_classes(model, y, call)
  weights <- as_weights(weights, call)
  check_weights(weights, x, what, call)
  list(x = x, y = y, sample_weight = weights)
}

as_validation <- function(model, data, known = NULL, call = rlang::caller_env()) {
  if (is_generator(data)) {
    return(as_generator(data, call))
  }
  if (is.null(data) || is_python(data)) {
    return(data)
  }
  if (is.data.frame(data)) data <- as_table(model, data, known = known, call = call)[c("x", "y")]
  if (!is.list(data) || is.data.frame(data) || !length(data) %in% 2:3) {
    abort_data(
      "`validation_data` must be a list of data and labels, or a dataset.",
      if (is.list(data)) paste("a list of", length(data)) else paste("an object of class", class(data)[1]),
      "Write validation_data = list(x, y).", "validation-data", call
    )
  }
  table <- as_table(model, data[[1]], data[[2]], known = known, call = call)
  x <- in_columns(model, table$x, call = call)
  # A list of two has NULL as its third part.
  given <- as_examples(model, x, table$y, data[3][[1]], " of validation", call)
  rlang::inject(reticulate::tuple(!!!unname(given)))
}

# A model of a custom class may have a training step without labels.
needs_labels <- function(model) {
  plain <- c("keras.src.models.functional.Functional", "keras.src.models.sequential.Sequential")
  class(model)[1] %in% plain && !is.null(model$loss)
}

rows_of <- function(x) if (is.list(x)) unlist(lapply(x, rows_of)) else shape_of(x)[1]

# The shape of arrays of R and NumPy; NULL for other Python objects, such as datasets.
shape_of <- function(x) {
  if (!is_python(x)) {
    return(dim(x))
  }
  if (inherits(x, "numpy.ndarray")) unlist(reticulate::py_to_r(reticulate::py_get_attr(x, "shape")))
}

in_words <- function(x) {
  if (is.list(x)) {
    return(paste0("(", paste(vapply(x, in_words, ""), collapse = ", "), ")"))
  }
  dims <- if (is.null(x) || is_python(x)) shape_of(x) else if (is_plain(x)) dim(x) %||% length(x)
  if (is.null(dims)) {
    return(if (is.null(x)) "none" else paste("an object of class", class(x)[1]))
  }
  if (length(dims) == 1) paste("a vector of", dims) else paste(paste(dims, collapse = " x "), "values")
}

# Convert data to a model's input.
as_data <- function(x, call = rlang::caller_env()) {
  if (is.factor(x) || is.character(x)) {
    abort_data(
      "A model's input must be numbers.", paste("a", if (is.factor(x)) "factor" else "character vector"),
      "Convert it to columns of numbers: model.matrix(~ x - 1).", "not-numbers", call
    )
  }
  if (is.data.frame(x)) {
    x <- as_matrix(x, call)
  }
  if (is.list(x)) {
    return(lapply(x, as_data, call = call))
  }
  check_type(x, "A model's input", call)
  x <- as_dimensions(x)
  check_missing(x, "A model's input", call)
  x
}

# Convert labels to a model's labels.
as_labels <- function(y, call = rlang::caller_env()) {
  if (is.null(y)) {
    return(NULL)
  }
  y <- only_column(y)
  if (is.data.frame(y)) y <- as_matrix(y, call)
  if (is.character(y)) {
    abort_data(
      "Labels must be numbers or a factor.", "a character vector",
      "Use factor(y): its first level becomes 0.", "not-numbers", call
    )
  }
  if (is.list(y)) {
    return(lapply(y, as_labels, call = call))
  }
  # R counts from 1, Keras from 0.
  if (is.factor(y)) y <- as.integer(y) - 1L
  as_numbers(y, "Labels", call)
}

# Convert labels, or weights of rows.
as_numbers <- function(x, what, call) {
  check_type(x, what, call)
  # Drop a dimension of one column: a model that has seen labels of one shape accepts no other shape.
  if (length(dim(x)) == 2 && is.atomic(x) && ncol(x) == 1) x <- as.vector(x)
  x <- as_dimensions(x)
  check_missing(x, what, call)
  x
}

only_column <- function(y) if (is.data.frame(y) && ncol(y) == 1) y[[1]] else y

is_plain <- function(x) (is.numeric(x) || is.logical(x)) && !inherits(x, names(converted))

# Arrays of numbers and Python objects are data. reticulate converts other objects to something that Keras
# rejects with a page of Python, or to wrong numbers: the bits of an integer64, the real part of a complex.
check_type <- function(x, what, call) {
  if (is_plain(x) || is_python(x)) {
    return(invisible())
  }
  known <- converted[vapply(names(converted), function(class) inherits(x, class), TRUE)]
  fix <- if (length(known)) known[[1]] else "Pass a matrix, an array, a data frame, or a Python object."
  abort_data(paste(what, "must be numbers."), in_words(x), fix, "not-numbers", call)
}

converted <- c(
  Matrix = paste(
    "Make it dense with as.matrix(), or one batch at a time in a generator:",
    "fit(model, function() list(as.matrix(x[rows, ]), y[rows]), steps_per_epoch = n)."
  ),
  formula = "Write fit(model, y ~ ., data = frame).",
  Date = "Convert it to numbers, such as days since a date: as.numeric(date - as.Date(\"2026-01-01\")).",
  POSIXt = "Convert it to numbers, such as seconds: as.numeric().",
  difftime = "Convert it to numbers, in the unit that you want: as.numeric(x, units = \"days\").",
  integer64 = "Convert it to numbers: as.numeric().",
  complex = "Use two columns, Re(x) and Im(x)."
)

# Compare the shape of the data with the model's input, if both are known and have the same rank.
check_columns <- function(model, x, call) {
  expected <- known_shape(model, "input_shape")
  found <- if (!is.list(x)) shape_of(x)
  if (!length(found) || !length(expected)) {
    return(invisible())
  }
  found <- as_rank(found, expected)
  if (length(found) != length(expected) || any((!is.na(expected) & expected != found)[-1])) {
    wanted <- paste(ifelse(is.na(expected), "n", expected), collapse = " x ")
    abort_data(
      paste0("The data must have the columns that the model expects: ", wanted, "."), in_words(x),
      "Select the columns that the model was made for, or make a model for these.", "columns", call
    )
  }
}

# A shape as Keras takes it: a vector is one column, and a last dimension of 1 is added or dropped.
as_rank <- function(found, expected) {
  missing <- length(expected) - length(found)
  if (missing == 1 && (length(found) == 1 || rev(expected)[1] %in% 1)) {
    c(found, 1)
  } else if (missing == -1 && rev(found)[1] == 1) {
    found[seq_along(expected)]
  } else {
    found
  }
}

# An attribute of a model such as (None, 4), as c(NA, 4). NULL if it is not known, or of several tensors.
known_shape <- function(model, name) {
  shape <- tryCatch(reticulate::py_to_r(reticulate::py_get_attr(model, name)), error = function(e) NULL)
  sizes <- lapply(shape, function(size) if (is.null(size)) NA else size)
  if (length(sizes) && all(vapply(sizes, function(s) is.atomic(s) && length(s) == 1, TRUE))) unlist(sizes)
}

# Labels of crossentropy losses are classes. TensorFlow reports another label late, or trains on it.
check_classes <- function(model, y, call) {
  limits <- if (!is.list(y)) limits_of(y)
  if (is.null(limits)) {
    return(invisible())
  }
  if (is_loss(model, "sparsecategoricalcrossentropy")) {
    last <- rev(known_shape(model, "output_shape"))[1] - 1
    must <- sprintf("The labels must be the classes of the model's outputs, 0 to %s.", last)
    decimals <- is.atomic(y) && any(y != trunc(y))
  } else if (is_loss(model, "binarycrossentropy")) {
    last <- 1
    must <- "The labels of a binary crossentropy must be from 0 to 1."
    decimals <- FALSE
  } else {
    return(invisible())
  }
  if (decimals || isTRUE(limits[1] < 0 || limits[2] > last)) {
    found <- if (decimals) "labels with decimals" else paste("labels from", limits[1], "to", limits[2])
    abort_data(must, found, "Use factor(y), whose first level becomes 0.", "labels", call)
  }
}

# A label to ignore, such as ignore_class = -1, may be outside of the classes.
is_loss <- function(model, name) {
  loss <- tryCatch(model$loss, error = function(e) NULL)
  if (is_python(loss) && !is.null(tryCatch(loss$ignore_class, error = function(e) NULL))) {
    return(FALSE)
  }
  label <- if (is_python(loss) || is.function(loss)) {
    tryCatch(reticulate::py_get_attr(loss, "__name__"), error = function(e) class(loss)[1])
  } else {
    loss
  }
  label <- tryCatch(as.character(reticulate::py_to_r(label)), error = function(e) as.character(label))
  length(label) == 1 && identical(gsub("_|.*[.]", "", tolower(label)), name)
}

limits_of <- function(y) {
  if (is.numeric(y) && length(y)) {
    return(range(y))
  }
  if (inherits(y, "numpy.ndarray")) {
    limit <- function(name) {
      as.numeric(reticulate::py_to_r(reticulate::py_call(reticulate::py_get_attr(y, name))))
    }
    tryCatch(c(limit("min"), limit("max")), error = function(e) NULL)
  }
}

# As an integer, NA would become -2147483648; as a double, it makes every weight NaN.
check_missing <- function(x, what, call) {
  if (!is.atomic(x) || !anyNA(x)) {
    return(invisible())
  }
  missing <- which(is.na(x))
  row <- (missing[1] - 1) %% dim(x)[1] + 1
  abort_data(
    paste(what, "must not be missing."),
    paste0(length(missing), " of ", length(x), " are NA or NaN, the first in row ", row),
    "Remove these rows from data and labels, or fill in values.", "missing", call
  )
}

# A plain vector would become a Python list.
as_dimensions <- function(x) {
  if (is.logical(x)) storage.mode(x) <- "integer"
  if (is.atomic(x) && !is.null(x) && is.null(dim(x))) array(x, length(x)) else x
}

as_matrix <- function(frame, call) {
  numbers <- vapply(frame, function(column) is.numeric(column) || is.logical(column), logical(1))
  if (!all(numbers)) {
    abort_data(
      "A data frame for a model must have columns of numbers only.",
      paste0(
        "`", names(frame)[!numbers], "` is of class ",
        vapply(frame[!numbers], function(column) class(column)[1], character(1)),
        collapse = ", "
      ),
      "Convert them to numbers: model.matrix() turns a factor into columns of 0 and 1.", "not-numbers", call
    )
  }
  unname(as.matrix(frame)) + 0
}
