#' Compile, fit, evaluate and predict with a Keras model
#'
#' Methods for Keras models of Python, for those who have no package keras3. Where that is loaded, its own
#' methods, which are for a more specific class, are used instead.
#'
#' Data are R arrays or matrices, Python arrays, tensors and datasets, or lists of them. A vector becomes an
#' array of one dimension; a data frame of numbers a matrix; a factor as labels its codes from 0, so that the
#' first level is 0. What can't be meant, such as text as labels, is an error.
#'
#' @param object A Keras model, such as [mnist_model()] makes.
#' @param optimizer,loss,metrics As Keras takes them: names, or Python objects. Several metrics are a list or
#'   a character vector.
#' @param x,y Data and labels; `y` is left out where `x` is a dataset.
#' @param newdata Data, as `x`.
#' @param batch_size Rows per step and process; under several workers of the global batch.
#' @param epochs How often all of `x` is used.
#' @param verbose `FALSE`, or `TRUE` for a line per epoch: Keras's own progress bar needs a terminal.
#' @param callbacks A list of callbacks: Python objects, or those of [r_callback()].
#' @param validation_split Share of `x`, from its end, that is kept for validation.
#' @param validation_data A list of data and labels.
#' @param ... More arguments of the model's method of this name in Python; whole numbers are sent as such.
#' @return `compile()` the model, invisibly. `fit()` a data frame of class `tfmuster_history`, invisibly: see
#'   [train_mnist()]; `plot()` draws it. `evaluate()` a list of loss and metrics by name. `predict()` an R
#'   array whose first dimension is that of `newdata`. `summary()` prints Keras's own, and returns the model
#'   invisibly.
#' @section Errors: `tfmuster_error_data` with the field `reason`: data of a kind that no model can take.
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

# The class above keras.src.models.model.Model, for which keras3 has its methods: whichever is loaded first,
# those win.

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
  if (!is.null(validation_data)) {
    parts <- list(as_data(validation_data[[1]]), as_labels(validation_data[[2]]))
    validation_data <- rlang::inject(reticulate::tuple(!!!parts))
  }
  history <- keras_method(
    object, "fit",
    x = as_data(x), y = as_labels(y), batch_size = batch_size, epochs = epochs,
    verbose = as_verbose(verbose), callbacks = as.list(callbacks), validation_split = validation_split,
    validation_data = validation_data, ...
  )
  invisible(as_history(history$history))
}

#' @rdname keras-methods
#' @exportS3Method evaluate keras.src.trainers.trainer.Trainer
evaluate.keras.src.trainers.trainer.Trainer <- function(object, x, y = NULL, batch_size = NULL, # nolint
                                                        verbose = FALSE, ...) {
  keras_method(
    object, "evaluate",
    x = as_data(x), y = as_labels(y), batch_size = batch_size, verbose = as_verbose(verbose),
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
  # Through R, so that it reaches every console.
  cat(reticulate::py_capture_output(keras_method(object, "summary", ...)))
  invisible(object)
}

#' A Keras callback of R functions
#'
#' Keras calls the functions in R's own thread. An error in one ends the training, and names it.
#'
#' @param ... Functions by the names that Keras has for them: `on_epoch_begin` and `on_epoch_end`, called with
#'   the epoch from 0 and a named list of metrics; `on_train_batch_begin` and `on_train_batch_end`, with the
#'   step from 0 and the metrics; `on_train_begin` and `on_train_end`, with the metrics.
#' @return A Python object, a Keras callback, for `fit()`, [train_mnist()] and every other program.
#' @section Errors: `tfmuster_error_data`: an argument that is no function, or of another name.
#' @export
#' @examplesIf tfmuster_available()
#' tell <- r_callback(on_epoch_end = function(epoch, logs) cat("loss", logs$loss, "\n"))
#' digits <- synthetic(train = 640, test = 100)
#' result <- train_mnist("softmax", digits, epochs = 2, callbacks = list(tell), verbose = FALSE)
r_callback <- function(...) {
  functions <- list(...)
  events <- paste0("on_", c("epoch_begin", "epoch_end", "train_batch_begin", "train_batch_end"))
  events <- c(events, "on_train_begin", "on_train_end")
  wrong <- names(functions) %||% rep("", length(functions))
  wrong <- wrong[!wrong %in% events | !vapply(functions, is.function, logical(1))]
  if (length(wrong)) {
    abort_data(
      "The arguments of r_callback() must be functions by the names of Keras's events.",
      paste0("`", wrong, "`", collapse = ", "), paste("Name them", paste(events, collapse = ", ")), "callback"
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

# What a model can take as its input.
as_data <- function(x, call = rlang::caller_env()) {
  if (is.function(x) || inherits(x, "rpytools.generator.RGenerator")) {
    abort_data(
      "A generator written in R can't feed a model: TensorFlow calls it in threads that are not R's.",
      paste("an object of class", class(x)[1]),
      "Give arrays, or a tf.data dataset made of arrays or files.", "foreign-thread", call
    )
  }
  if (is.factor(x) || is.character(x)) {
    abort_data(
      "A model's input must be numbers.", paste("a", if (is.factor(x)) "factor" else "character vector"),
      "Make columns of numbers of it: model.matrix(~ x - 1).", "not-numbers", call
    )
  }
  if (is.data.frame(x)) {
    return(as_matrix(x, call))
  }
  if (is.list(x)) lapply(x, as_data, call = call) else as_dimensions(x)
}

# What a model can take as labels.
as_labels <- function(y, call = rlang::caller_env()) {
  if (is.data.frame(y)) y <- if (ncol(y) == 1) y[[1]] else as_matrix(y, call)
  if (is.character(y)) {
    abort_data(
      "Labels must be numbers or a factor.", "a character vector",
      "Use factor(y): its first level becomes 0.", "not-numbers", call
    )
  }
  if (is.factor(y)) {
    if (anyNA(y)) {
      abort_data(
        "Labels must not be missing.", paste(sum(is.na(y)), "of", length(y), "are NA"),
        "Leave these rows out.", "missing", call
      )
    }
    # R counts from 1, Keras from 0.
    y <- as.integer(y) - 1L
  }
  if (is.list(y)) lapply(y, as_labels, call = call) else as_dimensions(y)
}

# A bare vector would become a Python list.
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
      "Make numbers of them: model.matrix() makes columns of 0 and 1 of a factor.", "not-numbers", call
    )
  }
  unname(as.matrix(frame)) + 0
}
