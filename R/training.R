#' Train on handwritten digits
#'
#' Trains one of the models of [mnist_model()] with the hyper-parameters of its published example, unless
#' told otherwise, under any strategy, and tests it. On a cluster every worker calls it; [launch()] starts
#' them.
#'
#' @param model The model's name, see [mnist_model()].
#' @param dataset `NULL` or `"mnist"`: see [mnist()]; `"synthetic"`: see [synthetic()]; the path of an
#'   `.npz` file or of a folder of IDX files; or digits.
#' @param strategy A strategy or its name, see [strategy()]. `NULL`: where TF_CONFIG, MPI, Slurm or
#'   Kubernetes name a cluster, `"parameter_server"` if that has any, else `"multi_worker_mirrored"`; else
#'   none.
#' @param batch_size Images per replica and step. The global batch is this times the number of replicas.
#' @param epochs,steps_per_epoch How long to train; 0 steps are the whole training set in each epoch.
#' @param validation_split Share of the training set, from its end, that is kept for validation.
#' @param shuffle Whether each epoch has an order of its own.
#' @inheritParams mnist_model
#' @param scale_lr Multiply the learning rate by the number of batches in a step, after a warm-up over the
#'   first five epochs or the first tenth of all steps, whichever is shorter (the linear rule of Goyal et al.
#'   2017, arXiv:1706.02677).
#' @param gradient_dtype As what gradients travel between workers, see [strategy()]; for a strategy that is
#'   not made yet.
#' @param seed Chooses initial weights, dropout and the order of the digits.
#' @param save Path to save the model to, see [save_model()].
#' @param history Path to write the result to, as JSON.
#' @param checkpoint_every Write checkpoints after so many steps, or `"epoch"`, and resume from the newest:
#'   see [checkpoint_callback()]. `NULL`: each epoch in a job that may be restarted or has an evaluator,
#'   else never.
#' @param updates,replicas_to_aggregate With parameter servers, see [ps_fit()]; `"async"` unless given.
#'   Then a step is one worker's batch, else one batch of each worker.
#' @param min_shard_bytes With parameter servers, see [strategy()].
#' @param callbacks A list of Keras callbacks, run on every worker; with parameter servers where the training
#'   is coordinated.
#' @param verbose `FALSE`: nothing; `TRUE`: one line per epoch, from the chief; `2`: every worker also says
#'   what it reads.
#' @return A list of class `tfmuster_training`: `history`, a data frame of class `tfmuster_history` with the
#'   columns `epoch` (from 1), `metric`, `value` and `data` (`"training"` or `"validation"`);
#'   `test_accuracy` (0 to 1) and `test_loss`; `model`; `model_path`; `dataset`, in words; `batch_size` and
#'   `global_batch_size`, in images; `replicas`; and `seconds`, the wall time of the training itself.
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
                        min_shard_bytes = NULL, callbacks = list(), verbose = TRUE) {
  check_arguments(mget(names(training_arguments)), training_arguments, kind = "error")
  if (!is.null(dataset) && !is_text(dataset) && !inherits(dataset, "tfmuster.Digits")) {
    refuse_argument("dataset", "a file, a folder, \"synthetic\", or what mnist() gives", dataset, "data")
  }
  share_tf_config()
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
    callbacks = as_callbacks(callbacks), verbose = verbose
  ))
}

training_arguments <- c(
  scale_lr = "flag", seed = "number", save = "name", history = "name", verbose = "verbosity"
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

# What a part of a history must have to be one.
history_columns <- c("epoch", "metric", "value", "data")

#' @export
`[.tfmuster_history` <- function(x, ...) {
  part <- NextMethod()
  if (is.data.frame(part) && !all(history_columns %in% names(part))) class(part) <- "data.frame"
  part
}

#' @export
print.tfmuster_history <- function(x, digits = 4, ...) {
  # Columns can be removed one by one, and rows of several histories bound together.
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
