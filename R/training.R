#' Train on handwritten digits
#'
#' Trains a model from [mnist_model()] under any strategy, and tests it. By default, this takes well under a
#' minute; `recipe = "document"` has the hyperparameters of the model's published example. On a cluster, call
#' it on every worker; [launch()] starts the workers.
#'
#' @param model The model's name, see [mnist_model()].
#' @param dataset `NULL` or `"mnist"`: see [mnist()]; `"synthetic"`: see [synthetic()]; the path of an
#'   `.npz` file or of a folder of IDX files; or digits.
#' @param strategy A strategy or its name, see [strategy()]. Default: if TF_CONFIG, MPI, Slurm, or Kubernetes
#'   define a cluster, `"parameter_server"` if it has parameter servers, else `"multi_worker_mirrored"`;
#'   without a cluster, no strategy.
#' @param batch_size Images per replica and step. The global batch is this times the number of replicas.
#' @param epochs,steps_per_epoch Length of the training. 0 steps mean the whole training set in each epoch.
#' @param validation_split Share of the training set, from its end, that is used for validation.
#' @param shuffle Whether each epoch has a new random order.
#' @inheritParams mnist_model
#' @param scale_lr Multiply the learning rate by the number of batches in a step, after a warm-up over the
#'   first five epochs or the first tenth of all steps, whichever is shorter. This is the linear scaling rule
#'   of Goyal et al. 2017, arXiv:1706.02677.
#' @param gradient_dtype Data type of the gradients that workers send each other, see [strategy()]. Only with
#'   the name of a strategy.
#' @param seed Seed of initial weights, dropout, and the order of the digits.
#' @param save Path of the saved model, see [model_to_file()].
#' @param history Path of a JSON file for the result.
#' @param checkpoint_every Write checkpoints after this many steps, or after each `"epoch"`, and resume from
#'   the newest: see [callback_checkpoint()]. Default: each epoch in a job that can restart or has an
#'   evaluator, otherwise never.
#' @param updates,replicas_to_aggregate With parameter servers, see [ps_fit()]. Default: `"async"`, where a
#'   step is one worker's batch; otherwise a step is one batch of each worker.
#' @param min_shard_bytes With parameter servers, see [strategy()].
#' @param callbacks A list of Keras callbacks, run on every worker; with parameter servers, on the
#'   coordinator.
#' @param verbose `FALSE`: print nothing; `TRUE`: the chief prints one line per epoch; `2`: every worker also
#'   prints which rows it reads.
#' @return A list of class `tfmuster_training`: `history`, a data frame of class `tfmuster_history` with the
#'   columns `epoch` (from 1), `metric`, `value` and `data` (`"training"` or `"validation"`);
#'   `test_accuracy` (0 to 1) and `test_loss`; `model`; `model_path`; `dataset`, a description; `batch_size`
#'   and `global_batch_size`, in images; `replicas`; and `seconds`, the wall time of the training.
#' @section Errors: `tfmuster_error_data`, `tfmuster_error_model`, `tfmuster_error_strategy`.
#' @seealso [plot.tfmuster_training()]
#' @export
#' @examplesIf tfmuster_available()
#' digits <- synthetic(seed = 1, train = 640, test = 100)
#' result <- train_mnist("softmax", dataset = digits, epochs = 2, seed = 1)
#' result
#' result$history
train_mnist <- function(model = "cnn", dataset = NULL, strategy = NULL, batch_size = NULL, epochs = NULL,
                        steps_per_epoch = NULL, validation_split = NULL, shuffle = NULL, optimizer = NULL,
                        learning_rate = NULL, scale_lr = FALSE, gradient_dtype = NULL, dropout = TRUE,
                        initial_weights = NULL,
                        gradient_accumulation_steps = NULL, steps_per_execution = NULL, seed = 0, save = NULL,
                        history = NULL, checkpoint_every = NULL, updates = NULL, replicas_to_aggregate = NULL,
                        min_shard_bytes = NULL, callbacks = list(), verbose = TRUE,
                        recipe = "quick") {
  check_arguments(mget(names(training_arguments)), training_arguments, kind = "error")
  if (!is.null(dataset) && !is_text(dataset) && !inherits(dataset, "tfmuster.Digits")) {
    refuse_argument("dataset", "a file, a folder, \"synthetic\", or an object from mnist()", dataset, "data")
  }
  share_variables()
  say_how_it_ends()
  as_training(run_python(
    "train_mnist", model,
    dataset = as_path(dataset), strategy = strategy, batch_size = as_whole(batch_size),
    epochs = as_whole(epochs), steps_per_epoch = as_whole(steps_per_epoch),
    validation_split = validation_split, shuffle = shuffle, optimizer = optimizer,
    learning_rate = learning_rate, scale_lr = scale_lr, gradient_dtype = gradient_dtype, dropout = dropout,
    initial_weights = initial_weights,
    gradient_accumulation_steps = as_whole(gradient_accumulation_steps),
    steps_per_execution = as_whole(steps_per_execution), seed = as_whole(seed), save = as_path(save),
    history = as_path(history), checkpoint_every = as_steps(checkpoint_every), updates = updates,
    replicas_to_aggregate = as_whole(replicas_to_aggregate), min_shard_bytes = as_whole(min_shard_bytes),
    callbacks = as_callbacks(callbacks), verbose = verbose, recipe = recipe
  ))
}

training_arguments <- c(
  strategy = "strategy_or_name?", batch_size = "integer?", epochs = "integer?",
  steps_per_epoch = "integer?", validation_split = "fraction?", shuffle = "flag?", optimizer = "name",
  learning_rate = "rate?", scale_lr = "flag", gradient_dtype = "name", dropout = "flag",
  initial_weights = "name", gradient_accumulation_steps = "count", steps_per_execution = "count",
  seed = "number", save = "name", history = "name", checkpoint_every = "steps?",
  updates = "name", replicas_to_aggregate = "count", min_shard_bytes = "share", verbose = "verbosity",
  recipe = "string"
)

as_training <- function(result) {
  fields <- c(
    "test_accuracy", "test_loss", "model", "model_path", "dataset", "batch_size", "global_batch_size",
    "replicas", "seconds"
  )
  structure(
    c(
      list(history = as_history(result$history)),
      lapply(rlang::set_names(fields), function(name) result[[name]])
    ),
    class = "tfmuster_training"
  )
}

# Keras names the validation metrics `val_<metric>`.
as_history <- function(metrics) {
  of_metric <- function(name) {
    values <- as.numeric(unlist(metrics[[name]]))
    data.frame(
      epoch = seq_along(values),
      metric = rep(sub("^val_", "", name), length(values)),
      value = values,
      data = rep(if (startsWith(name, "val_")) "validation" else "training", length(values))
    )
  }
  none <- data.frame(epoch = integer(), metric = character(), value = numeric(), data = character())
  history <- do.call(rbind, c(list(none), lapply(names(metrics), of_metric)))
  structure(history, class = c("tfmuster_history", "data.frame"))
}

#' @exportS3Method as.data.frame keras.src.callbacks.history.History
as.data.frame.keras.src.callbacks.history.History <- function(x, ...) { # nolint
  as.data.frame(as_history(x$history))
}

#' @export
as.data.frame.tfmuster_history <- function(x, ...) {
  structure(x, class = "data.frame")
}

# The columns that a subset of a history needs to stay a history.
history_columns <- c("epoch", "metric", "value", "data")

#' @export
`[.tfmuster_history` <- function(x, ...) {
  part <- NextMethod()
  if (is.data.frame(part) && !all(history_columns %in% names(part))) class(part) <- "data.frame"
  part
}

#' @export
print.tfmuster_history <- function(x, digits = 4, ...) {
  # Users can remove single columns, and bind rows of several histories.
  if (!all(history_columns %in% names(x)) || anyDuplicated(as.data.frame(x)[c("epoch", "metric", "data")])) {
    print(as.data.frame(x), digits = digits, ...)
    return(invisible(x))
  }
  epochs <- unique(x$epoch)
  column <- ifelse(x$data == "validation", paste0("val_", x$metric), x$metric)
  by_column <- split(x, factor(column, unique(column)))
  wide <- lapply(by_column, function(rows) rows$value[match(epochs, rows$epoch)])
  plural <- if (length(epochs) != 1) "s"
  cli::cat_line(cli::style_bold("Training history"), ", ", length(epochs), " epoch", plural)
  if (length(epochs)) {
    print(as.data.frame(c(list(epoch = epochs), wide)), digits = digits, row.names = FALSE)
  }
  invisible(x)
}

#' @export
print.tfmuster_training <- function(x, digits = 4, ...) {
  print(x$history, digits = digits)
  cli::cat_line(
    cli::style_bold("Test"), " accuracy ", format(x$test_accuracy, digits = digits),
    ", loss ", format(x$test_loss, digits = digits)
  )
  cli::cat_line(cli::col_grey(
    "Global batch ", x$global_batch_size, " images, ", x$replicas, " replica", if (x$replicas != 1) "s",
    if (!is.null(x$model_path)) paste0("; model saved in ", x$model_path)
  ))
  invisible(x)
}
