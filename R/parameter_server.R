#' Train with parameter servers
#'
#' What `fit()` is elsewhere: Keras 3's own refuses parameter servers. The task that coordinates (the
#' chief, or worker 0) calls it; `strategy("parameter_server")` makes all other tasks serve until the job
#' is over, so one script does for all. Start it by `launch(script, ps = 1, workers = 3)`.
#'
#' @param model Any compiled Keras 3 model. It is an ordinary one afterwards: evaluate, save and use it.
#' @param dataset_fn A function that makes a worker's own batches, a `tf.data.Dataset`. It is given a
#'   `tf.distribute.InputContext`, which knows the worker (`context$input_pipeline_id`, from 0) and how many
#'   there are (`context$num_input_pipelines`); it is called once for each worker, and its data set is
#'   repeated.
#' @param epochs,steps_per_epoch How long to train; a step is one update of the weights.
#' @param updates `"async"`: each worker's gradient is applied as it comes, to weights that others may have
#'   changed meanwhile. `"sync"`: every update is the mean of one gradient from each worker.
#' @param replicas_to_aggregate Synchronous only: take the first so many gradients of each step, and drop
#'   those that come later.
#' @param validation_data As for `evaluate()`, after each epoch.
#' @param callbacks A list of Keras callbacks; they run where `ps_fit()` was called.
#' @param verbose As for `fit()`.
#' @param strategy The strategy; `NULL`: the one that this session has made.
#' @return Keras's history, a Python object; `as.data.frame()` makes a data frame of it. Asynchronously it
#'   also has `staleness` and `max_staleness`: how many updates others applied while a worker computed one,
#'   on average and at most.
#' @section Errors: `tfmuster_error_strategy` with the field `reason`; `tfmuster_error_model`,
#'   `tfmuster_error_data`; `tfmuster_error_worker` when too many workers are gone.
#' @export
#' @examples
#' # train.R, to be started by launch("train.R", ps = 1, workers = 2)
#' train <- function() {
#'   ps <- strategy("parameter_server")
#'   tf <- reticulate::import("tensorflow")
#'   digits <- mnist()
#'   batches <- function(context) {
#'     data <- tf$data$Dataset$from_tensor_slices(list(digits$x_train, digits$y_train))
#'     data$shard(context$num_input_pipelines, context$input_pipeline_id)$shuffle(10000L)$batch(100L)
#'   }
#'   ps_fit(mnist_model("softmax"), batches, epochs = 2, steps_per_epoch = 50)
#' }
ps_fit <- function(model, dataset_fn, epochs = 1, steps_per_epoch = NULL, updates = "async",
                   replicas_to_aggregate = NULL, validation_data = NULL, callbacks = list(),
                   verbose = "auto", strategy = NULL) {
  run_python(
    "ps_fit", model, dataset_fn,
    epochs = as_whole(epochs), steps_per_epoch = as_whole(steps_per_epoch), updates = updates,
    replicas_to_aggregate = as_whole(replicas_to_aggregate), validation_data = validation_data,
    callbacks = callbacks, verbose = as_whole(verbose), strategy = strategy
  )
}
