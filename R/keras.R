#' Compile, fit, evaluate and predict with a Keras model
#'
#' Methods for Keras models in Python if you don't use the package keras3. If keras3 is loaded, its methods
#' for a more specific class are used instead.
#'
#' Data are R arrays or matrices, Python arrays, tensors, and datasets, or lists of them. A vector becomes an
#' array with one dimension, and a data frame of numbers becomes a matrix. Labels can be a factor, which
#' becomes its codes from 0, or a matrix with one column, which becomes a vector. Invalid data, such as text
#' labels, raises an error, and so do `NA` and `NaN` in R data; Python arrays are passed unchanged.
#'
#' @param object A Keras model, for example from [mnist_model()].
#' @param optimizer,loss,metrics Arguments of Keras: names, or Python objects. Pass several metrics as a list
#'   or a character vector.
#' @param x,y Data and labels. Omit `y` if `x` is a dataset.
#' @param newdata Data, in the format of `x`.
#' @param batch_size Rows per step and process; with several workers, rows of the global batch.
#' @param epochs Number of passes over `x`.
#' @param verbose `TRUE` prints a line per epoch, because Keras's progress bar needs a terminal; `FALSE`
#'   prints nothing.
#' @param callbacks A callback or a list of them: Python objects, or callbacks from [r_callback()].
#' @param validation_split Share of `x`, from its end, that is used for validation.
#' @param validation_data A list of data, labels, and optional weights; or a dataset.
#' @param ... More arguments of the model's Python method of this name. Whole numbers become integers.
#' @return `compile()` returns the model, invisibly. `fit()` returns a data frame of class `tfmuster_history`,
#'   invisibly: see [train_mnist()]; `plot()` draws it. `evaluate()` returns a named list of loss and metrics.
#'   `predict()` returns an R array with the first dimension of `newdata`. `summary()` prints Keras's summary
#'   and returns the model, invisibly.
#' @section Errors: `tfmuster_error_data` with the field `reason`: the data has an unsupported type, missing
#'   values, or another number of rows than the labels.
#' @name keras-methods
#' @examplesIf tfmuster_available()
#' model <- mnist_model("softmax", seed = 1)
#' compile(model, optimizer = "adam", loss = "sparse_categorical_crossentropy", metrics = "accuracy")
#' digits <- synthetic(seed = 1, train = 640, test = 100)
#' history <- fit(model, digits$x_train, digits$y_train, epochs = 2, batch_size = 64, verbose = FALSE)
#' history
#' evaluate(model, digits$x_test, digits$y_test)
#' dim(predict(model, digits$x_test))
NULL

#' @importFrom generics compile
#' @export
generics::compile

#' @importFrom generics fit
#' @export
generics::fit

#' @rdname keras-methods
#' @export
evaluate <- function(object, ...) UseMethod("evaluate")

# keras3 has its methods for keras.src.models.model.Model. Use its parent class here, so that the methods of
# keras3 win in any load order.

#' @rdname keras-methods
#' @exportS3Method generics::compile keras.src.trainers.trainer.Trainer
compile.keras.src.trainers.trainer.Trainer <- function(object, optimizer = "rmsprop", loss = NULL, # nolint
                                                       metrics = NULL, ...) {
  if (!is.null(metrics)) metrics <- as.list(metrics)
  keras_method(object, "compile", optimizer = optimizer, loss = loss, metrics = metrics, ...)
  invisible(object)
}

#' @rdname keras-methods
#' @exportS3Method generics::fit keras.src.trainers.trainer.Trainer
fit.keras.src.trainers.trainer.Trainer <- function(object, x, y = NULL, batch_size = NULL, epochs = 1, # nolint
                                                   verbose = TRUE, callbacks = list(), validation_split = 0,
                                                   validation_data = NULL, ...) {
  given <- as_examples(object, x, y)
  history <- keras_method(
    object, "fit",
    x = given$x, y = given$y, batch_size = batch_size, epochs = epochs,
    verbose = as_verbose(verbose), callbacks = as_callbacks(callbacks), validation_split = validation_split,
    validation_data = as_validation(object, validation_data), ...
  )
  invisible(as_history(history$history))
}

#' @rdname keras-methods
#' @exportS3Method evaluate keras.src.trainers.trainer.Trainer
evaluate.keras.src.trainers.trainer.Trainer <- function(object, x, y = NULL, batch_size = NULL, # nolint
                                                        verbose = FALSE, ...) {
  given <- as_examples(object, x, y)
  keras_method(
    object, "evaluate",
    x = given$x, y = given$y, batch_size = batch_size, verbose = as_verbose(verbose),
    return_dict = TRUE, ...
  )
}

#' @rdname keras-methods
#' @importFrom stats predict
#' @exportS3Method stats::predict keras.src.trainers.trainer.Trainer
predict.keras.src.trainers.trainer.Trainer <- function(object, newdata, batch_size = NULL, # nolint
                                                       verbose = FALSE, ...) {
  keras_method(
    object, "predict",
    x = as_data(newdata), batch_size = batch_size, verbose = as_verbose(verbose), ...
  )
}

#' @rdname keras-methods
#' @exportS3Method summary keras.src.trainers.trainer.Trainer
summary.keras.src.trainers.trainer.Trainer <- function(object, ...) { # nolint
  # Print with R, so that the output reaches every console.
  cat(reticulate::py_capture_output(keras_method(object, "summary", ...)))
  invisible(object)
}

#' Make a Keras callback from R functions
#'
#' Keras calls the functions in R's thread. An error in a function stops the training, and the message names
#' the function.
#'
#' @param ... Functions, named after Keras's events. `on_epoch_begin` and `on_epoch_end` get the epoch, from
#'   0, and a named list of metrics. `on_train_batch_begin` and `on_train_batch_end` get the step, from 0, and
#'   the metrics. `on_train_begin` and `on_train_end` get the metrics.
#' @return A Python object, a Keras callback, for `fit()`, [train_mnist()], or any other Keras code.
#' @section Errors: `tfmuster_error_data`: an argument is not a function, or has another name.
#' @export
#' @examplesIf tfmuster_available()
#' tell <- r_callback(on_epoch_end = function(epoch, logs) cat("loss", logs$loss, "\n"))
#' digits <- synthetic(train = 640, test = 100)
#' result <- train_mnist("softmax", digits, epochs = 2, callbacks = list(tell), verbose = FALSE)
r_callback <- function(...) {
  functions <- list(...)
  events <- paste0("on_", c("epoch_begin", "epoch_end", "train_batch_begin", "train_batch_end"))
  events <- c(events, "on_train_begin", "on_train_end")
  names <- names(functions) %||% rep("", length(functions))
  wrong <- ifelse(
    nzchar(names), ifelse(names %in% events, paste0("`", names, "` is no function"), paste0("`", names, "`")),
    paste("argument", seq_along(names), "has no name")
  )
  wrong <- wrong[!names %in% events | !vapply(functions, is.function, logical(1))]
  if (length(wrong)) {
    abort_data(
      "The arguments of r_callback() must be functions, named after Keras's events.",
      paste(wrong, collapse = ", "), paste("Use the names", paste(events, collapse = ", ")), "callback"
    )
  }
  named <- Map(function(fn, event) {
    force(fn)
    force(event)
    function(...) {
      withCallingHandlers(
        {
          fn(...)
          NULL
        },
        error = function(e) {
          text <- paste0("the R callback ", event, "() failed: ", conditionMessage(e))
          cli::cli_abort(bullet(text), parent = e, call = NULL)
        }
      )
    }
  }, functions, names(functions))
  rlang::inject(reticulate::import("keras")$callbacks$LambdaCallback(!!!named))
}

keras_method <- function(model, name, ...) {
  method <- model[[name]]
  rlang::inject(method(!!!lapply(list(...), as_whole)))
}

as_verbose <- function(verbose) if (isTRUE(verbose)) 2L else if (isFALSE(verbose)) 0L else as_whole(verbose)

abort_data <- function(message, found, fix, reason, call = rlang::caller_env()) {
  abort_tfmuster(list(
    kind = "data", message = message, found = found, fix = fix, reason = reason, path = NULL
  ), call)
}

is_python <- function(x) inherits(x, "python.builtin.object")

# A single callback becomes a list of one.
as_callbacks <- function(callbacks, call = rlang::caller_env()) {
  if (is_python(callbacks) || is.function(callbacks)) callbacks <- list(callbacks)
  callbacks <- as.list(callbacks)
  wrong <- !vapply(callbacks, is_python, logical(1))
  if (any(wrong)) {
    abort_data(
      "`callbacks` must be Keras callbacks.",
      paste("an object of class", class(callbacks[[which(wrong)[1]]])[1]),
      "Make one from R functions: r_callback(on_epoch_end = function(epoch, logs) ...).", "callback", call
    )
  }
  callbacks
}

# Convert and check data with its labels.
as_examples <- function(model, x, y, what = "", call = rlang::caller_env()) {
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
  list(x = x, y = y)
}

as_validation <- function(model, data, call = rlang::caller_env()) {
  if (is.null(data) || is_python(data)) {
    return(data)
  }
  if (!is.list(data) || is.data.frame(data) || !length(data) %in% 2:3) {
    abort_data(
      "`validation_data` must be a list of data and labels, or a dataset.",
      if (is.list(data)) paste("a list of", length(data)) else paste("an object of class", class(data)[1]),
      "Write validation_data = list(x, y).", "validation-data", call
    )
  }
  given <- as_examples(model, data[[1]], data[[2]], " of validation", call)
  rlang::inject(reticulate::tuple(!!!unname(c(given, lapply(data[-(1:2)], as_dimensions)))))
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
  dims <- shape_of(x)
  if (is.null(dims)) {
    return(if (is.null(x)) "none" else paste("an object of class", class(x)[1]))
  }
  if (length(dims) == 1) paste("a vector of", dims) else paste(paste(dims, collapse = " x "), "values")
}

# Convert data to a model's input.
as_data <- function(x, call = rlang::caller_env()) {
  if (is.function(x) || inherits(x, "rpytools.generator.RGenerator")) {
    abort_data(
      "A generator written in R can't feed a model: TensorFlow calls it in threads that are not R's.",
      paste("an object of class", class(x)[1]),
      "Pass arrays, or a tf.data dataset made of arrays or files.", "foreign-thread", call
    )
  }
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
  x <- as_dimensions(x)
  check_missing(x, "A model's input", call)
  x
}

# Convert labels to a model's labels.
as_labels <- function(y, call = rlang::caller_env()) {
  if (is.data.frame(y)) y <- if (ncol(y) == 1) y[[1]] else as_matrix(y, call)
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
  # Drop a dimension of one column: a model that has seen labels of one shape accepts no other shape.
  if (length(dim(y)) == 2 && is.atomic(y) && ncol(y) == 1) y <- as.vector(y)
  y <- as_dimensions(y)
  check_missing(y, "Labels", call)
  y
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
