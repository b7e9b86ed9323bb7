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
#' Data can also be a generator: a function without arguments that returns one batch from each call,
#' `list(x, y)`, `list(x, y, weights)`, or `list(x)` for `predict()`, and `NULL` after the last one. It is
#' called in R's thread, between steps. If it returns batches without end, use `steps_per_epoch`,
#' `validation_steps`, or `steps`. A function that ends serves one pass. On several workers, each worker calls
#' its own function, which must return the same global batches on all of them: each worker trains on its part
#' of the rows. With a seed, such as `set.seed(1)`, random rows are the same on all workers.
#'
#' A formula takes its columns from the data frame `data`: `fit(model, species ~ ., data = frame)`. A factor,
#' or a column of text, becomes a column of 0 and 1 for each level but the first, also in a data frame without
#' a formula. The model keeps the levels: new data may have them in another order, an unknown one is an error
#' with its name, and `predict(type = "class")` returns a factor of them. A model that a function of
#' [launch()] returns keeps them, too, unless its formula calls functions. `validation_data` and the data of
#' `evaluate()` can then be data frames with the labels in them.
#'
#' The columns of a data frame are found by their names when the model was fitted to a data frame before.
#'
#' Weights change how much a row counts in the loss. `class_weight` gives all rows of a class one weight, and
#' does not change the loss of the validation. `sample_weight` gives each row its own. They can't be used
#' together. The batches of a generator or a dataset contain the weights of their rows.
#'
#' @param object A Keras model, for example from [mnist_model()].
#' @param optimizer,loss,metrics Arguments of Keras: names, or Python objects. Pass several metrics as a list
#'   or a character vector.
#' @param x,y Data and labels, or a formula as `x`. Omit `y` if `x` is a dataset or a formula.
#' @param data The data frame of a formula.
#' @param type `"response"` returns the model's output; `"class"` the level of the factor that the model was
#'   fitted to, with the highest output.
#' @param newdata Data, in the format of `x`.
#' @param batch_size Rows per step and process; with several workers, rows of the global batch.
#' @param epochs Number of passes over `x`.
#' @param verbose `TRUE` prints a line per epoch, on the chief of several workers, because Keras's progress
#'   bar needs a terminal; 2 prints it on every worker, and `FALSE` prints nothing.
#' @param callbacks A callback or a list of them: Python objects, or callbacks from [callback_r()].
#' @param validation_split Share of `x`, from its end, that is used for validation.
#' @param validation_data A list of data, labels, and optional weights, in the format of `sample_weight`; or a
#'   dataset.
#' @param class_weight Weights of the classes, for a model with one output: a named list or vector. The names
#'   are the levels of the factor that the labels are, `c(no = 1, yes = 5)`; for other labels, the numbers of
#'   the classes, which count from 0, `c("0" = 1, "1" = 5)`. Columns of one-hot labels count from 0, too. A
#'   class without a weight has the weight 1. Without names, the list has one weight for each class, in order.
#'   A Python dictionary has the numbers of the classes as its keys.
#' @param sample_weight One weight for each row of `x`: a vector, a matrix with one column, or a Python array.
#'   For several outputs, a list of them or one vector for all.
#' @param ... More arguments of the model's Python method of this name. Whole numbers become integers.
#' @return `compile()` returns the model, invisibly. `fit()` returns a data frame of class `tfmuster_history`,
#'   invisibly: see [train_mnist()]; `plot()` draws it. `evaluate()` returns a named list of loss and metrics.
#'   `predict()` returns an R array with the first dimension of `newdata`, or a factor. `summary()` prints
#'   Keras's summary and returns the model, invisibly.
#' @section Errors: `tfmuster_error_data` with the field `reason`: the data has an unsupported type, such as a
#'   sparse matrix or a date; missing values; an unknown level; other columns than the model's input; another
#'   number of rows than the labels or the weights; labels that are no class of the model; or weights of
#'   classes that the labels don't have. A generator that ends before the training, or returns batches of
#'   different shapes, raises it too. An error in a generator's R code ends the training unchanged.
#' @name keras-methods
#' @examplesIf tfmuster_available()
#' model <- mnist_model("softmax", seed = 1)
#' compile(model, optimizer = "adam", loss = "sparse_categorical_crossentropy", metrics = "accuracy")
#' digits <- synthetic(seed = 1, train = 640, test = 100)
#' history <- fit(model, digits$x_train, digits$y_train, epochs = 2, batch_size = 64, verbose = FALSE)
#' history
#' evaluate(model, digits$x_test, digits$y_test)
#' dim(predict(model, digits$x_test))
#'
#' # A table with factors:
#' keras <- reticulate::import("keras")
#' layers <- list(keras$Input(reticulate::tuple(4L)), keras$layers$Dense(3L, "softmax"))
#' flowers <- keras$Sequential(layers)
#' compile(flowers, optimizer = "adam", loss = "sparse_categorical_crossentropy")
#' fit(flowers, Species ~ ., data = iris, epochs = 5, verbose = FALSE)
#' table(predict(flowers, iris, type = "class"))
NULL

#' @importFrom generics compile
#' @examplesIf tfmuster_available()
#' # The methods of tfmuster are described in the help of tfmuster's keras-methods and tfmuster_run.
#' model <- mnist_model("softmax", seed = 1)
#' compile(model, optimizer = "adam", loss = "sparse_categorical_crossentropy")
#' digits <- synthetic(seed = 1, train = 640, test = 100)
#' tidy(fit(model, digits$x_train, digits$y_train, epochs = 2, verbose = FALSE))
#' glance(train_mnist("softmax", digits, epochs = 1))
#' @export
generics::compile

#' @importFrom generics fit
#' @export
generics::fit

# generics and tensorflow, whose generic is keras3's, have one each. Ours gives way to them, see R/package.R.
#' @rdname keras-methods
#' @export
evaluate <- function(object, ...) UseMethod("evaluate")

# Let the generic of another package find the method for models, now or when the package is loaded.
register_evaluate <- function(package) {
  register <- function(...) {
    class <- "keras.src.trainers.trainer.Trainer"
    registerS3method("evaluate", class, evaluate.keras.src.trainers.trainer.Trainer, asNamespace(package))
  }
  if (isNamespaceLoaded(package)) register() else setHook(packageEvent(package, "onLoad"), register)
}

# keras3 has its methods for keras.src.models.model.Model. Use its parent class here, so that the methods of
# keras3 win in any load order.

#' @rdname keras-methods
#' @exportS3Method generics::compile keras.src.trainers.trainer.Trainer
compile.keras.src.trainers.trainer.Trainer <- function(object, optimizer = "rmsprop", loss = NULL, # nolint
                                                       metrics = NULL, ...) {
  if (!is.null(metrics)) metrics <- as.list(metrics)
  if (is_text(optimizer)) run_python("check_optimizer", optimizer)
  keras_method(object, "compile", optimizer = optimizer, loss = loss, metrics = metrics, ...)
  invisible(object)
}

#' @rdname keras-methods
#' @exportS3Method generics::fit keras.src.trainers.trainer.Trainer
fit.keras.src.trainers.trainer.Trainer <- function(object, x, y = NULL, batch_size = NULL, epochs = 1, # nolint
                                                   verbose = TRUE, callbacks = list(), validation_split = 0,
                                                   validation_data = NULL, ..., data = NULL,
                                                   class_weight = NULL, sample_weight = NULL) {
  check_training(list(epochs = epochs, batch_size = batch_size, validation_split = validation_split, ...))
  check_split(x, validation_split)
  table <- as_table(object, x, y, data, first = TRUE)
  given <- as_examples(object, in_columns(object, table$x, remember = TRUE), table$y, sample_weight)
  class_weight <- as_class_weight(class_weight, object, given, table)
  # Keras would warn that it can't shuffle what gives whole batches.
  order <- if ((is_generator(x) || is_dataset(given$x)) && is.null(list(...)$shuffle)) list(shuffle = FALSE)
  history <- rlang::inject(keras_method(
    object, "fit",
    !!!given, class_weight = class_weight, batch_size = batch_size, epochs = epochs,
    verbose = as_verbose(verbose), callbacks = as_callbacks(callbacks), validation_split = validation_split,
    validation_data = as_validation(object, validation_data, table$known), !!!order, ...
  ))
  remember_table(object, table$known)
  invisible(as_history(history$history))
}

#' @rdname keras-methods
#' @exportS3Method evaluate keras.src.trainers.trainer.Trainer
evaluate.keras.src.trainers.trainer.Trainer <- function(object, x, y = NULL, batch_size = NULL, # nolint
                                                        verbose = FALSE, ..., data = NULL,
                                                        sample_weight = NULL) {
  check_training(list(batch_size = batch_size, ...))
  table <- as_table(object, x, y, data)
  given <- as_examples(object, in_columns(object, table$x), table$y, sample_weight)
  rlang::inject(keras_method(
    object, "evaluate",
    !!!given, batch_size = batch_size, verbose = as_verbose(verbose), return_dict = TRUE, ...
  ))
}

#' @rdname keras-methods
#' @importFrom stats predict
#' @exportS3Method stats::predict keras.src.trainers.trainer.Trainer
predict.keras.src.trainers.trainer.Trainer <- function(object, newdata, batch_size = NULL, # nolint
                                                       verbose = FALSE, ..., type = c("response", "class")) {
  type <- rlang::arg_match(type)
  check_training(list(batch_size = batch_size, ...))
  data <- in_columns(object, as_table(object, newdata)$x)
  data <- if (is_generator(data)) as_generator(data) else as_data(data)
  check_columns(object, data, rlang::current_env())
  scores <- keras_method(
    object, "predict",
    x = data, batch_size = batch_size, verbose = as_verbose(verbose), ...
  )
  if (type == "class") as_classes(object, scores, rlang::current_env()) else scores
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
#' tell <- callback_r(on_epoch_end = function(epoch, logs) cat("loss", logs$loss, "\n"))
#' digits <- synthetic(train = 640, test = 100)
#' result <- train_mnist("softmax", digits, epochs = 2, callbacks = list(tell), verbose = FALSE)
callback_r <- function(...) {
  functions <- list(...)
  events <- paste0("on_", c("epoch_begin", "epoch_end", "train_batch_begin", "train_batch_end"))
  events <- c(events, "on_train_begin", "on_train_end")
  names <- names(functions) %||% rep("", length(functions))
  wrong <- ifelse(
    nzchar(names), ifelse(names %in% events, paste0("`", names, "` is no function"), paste0("`", names, "`")),
    paste("argument", seq_along(names), "has no name")
  )
  wrong <- wrong[!names %in% events | !vapply(functions, is.function, logical(1))]
  if (!length(wrong)) {
    of_steps <- grepl("epoch|batch", names)
    few <- !mapply(takes, functions, 1 + of_steps)
    wrong <- sprintf("`%s` takes fewer than %d arguments", names, 1 + of_steps)[few]
  }
  if (length(wrong)) {
    abort_data(
      "The arguments of callback_r() must be functions, named after Keras's events.",
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
          said <- paste0("the R callback ", event, "() failed")
          the$callback_error <- rlang::error_cnd(
            "tfmuster_callback_error",
            message = paste0("T", substring(said, 2), "."), parent = e, said = said,
            frames = frames_of(e, raised_at(sys.nframe()))
          )
          cli::cli_abort(bullet(paste0(said, ": ", conditionMessage(e))), parent = e, call = NULL)
        }
      )
    }
  }, functions, names(functions))
  rlang::inject(reticulate::import("keras")$callbacks$LambdaCallback(!!!named))
}

# Whether a function can be called with this many arguments.
takes <- function(fn, count) {
  expected <- names(formals(args(fn)))
  "..." %in% expected || length(expected) >= count
}

keras_method <- function(model, name, ..., call = rlang::caller_env()) {
  the$generator_error <- NULL
  # R may have removed the variable, which Python would still have.
  share_variables(call)
  # An array with one value is data of one row.
  given <- lapply(list(...), function(value) if (is.array(value)) value else as_whole(value))
  withCallingHandlers(
    rlang::inject(run_python("call_method", model, name, !!!given, call = call)),
    error = function(e) {
      cause <- the$generator_error
      the$generator_error <- NULL
      if (!is.null(cause)) stop(cause)
    }
  )
}

is_dataset <- function(x) inherits(x, "tensorflow.python.types.data.DatasetV2")

# The arguments of fit(), evaluate() and predict() that are numbers. Keras cuts off or ignores decimals.
check_training <- function(given, call = rlang::caller_env()) {
  known <- c(
    epochs = "positive", batch_size = "count", validation_split = "fraction", steps_per_epoch = "count",
    validation_steps = "count", validation_batch_size = "count", initial_epoch = "number", steps = "count"
  )
  check_arguments(given, known[intersect(names(known), names(given))], kind = "data", call = call)
}

check_split <- function(x, split, call = rlang::caller_env()) {
  if (is_generator(x) && split > 0) {
    abort_data(
      "validation_split takes rows from the end of `x`, and a generator has no end.",
      paste("validation_split =", split),
      "Use validation_data with a second generator, and validation_steps.", "generator-split", call
    )
  }
}

# Columns of a data frame are found by their names, as predict.lm() does. A model has the names of the data
# frame that it was fitted to first.
in_columns <- function(model, x, remember = FALSE, call = rlang::caller_env()) {
  if (!is.data.frame(x)) {
    return(x)
  }
  known <- unlist(run_python("columns_of", model, if (remember) as.list(names(x)), call = call))
  if (is.null(known) || identical(known, names(x))) {
    return(x)
  }
  if (!setequal(known, names(x)) || anyDuplicated(names(x))) {
    named <- function(columns) paste0("`", columns, "`", collapse = ", ")
    missing <- setdiff(known, names(x))
    more <- setdiff(names(x), known)
    found <- c(if (length(missing)) paste("no", named(missing)), if (length(more)) paste("also", named(more)))
    abort_data(
      "A data frame must have the columns of the data frame that the model was fitted to.",
      paste(c(found, if (is.null(found)) "a name twice"), collapse = "; "),
      paste("Select the columns", named(known)), "columns", call
    )
  }
  x[known]
}

# The metrics of a job are those of all workers, so TRUE prints the chief's lines alone.
as_verbose <- function(verbose) {
  if (!is_flag(verbose)) {
    return(as_whole(verbose))
  }
  repeated <- Sys.getenv("TFMUSTER_IS_CHIEF") == "0" && !nzchar(Sys.getenv("TFMUSTER_INDEPENDENT"))
  if (verbose && !repeated) 2L else 0L
}

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
      "Make one from R functions: callback_r(on_epoch_end = function(epoch, logs) ...).", "callback", call
    )
  }
  callbacks
}
