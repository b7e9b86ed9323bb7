#' Train with parameter servers
#'
#' Use `ps_fit()` instead of `fit()`, which does not support parameter servers in Keras 3. Only the task that
#' coordinates (the chief, or worker 0) calls it. `strategy("parameter_server")` makes all other tasks serve
#' until the job ends, so all tasks run the same script. Start it with
#' `launch(script, workers = 3, control = launch_control(ps = 1))`.
#'
#' @param model Any compiled Keras 3 model. Afterwards it is an ordinary model that you can evaluate, save,
#'   and use.
#' @param dataset_fn A function that returns a worker's own batches as a `tf.data.Dataset`. Its argument is a
#'   `tf.distribute.InputContext` with the worker's index (`context$input_pipeline_id`, from 0) and the number
#'   of workers (`context$num_input_pipelines`). It is called once per worker, and its data set is repeated.
#' @param epochs,steps_per_epoch Length of the training. A step is one update of the weights.
#' @param updates `"async"`: apply each worker's gradient when it arrives, to weights that other workers may
#'   have changed meanwhile. `"sync"`: every update is the mean of one gradient per worker.
#' @param replicas_to_aggregate Synchronous only: use this many gradients, the first of each step, and drop
#'   later ones.
#' @param validation_data Data for `evaluate()`, which runs after each epoch.
#' @param callbacks A list of Keras callbacks. They run in the process that calls `ps_fit()`.
#' @param verbose The same as for `fit()`.
#' @param strategy The strategy. Default: the strategy of this session.
#' @return Keras's history, a Python object; `as.data.frame()` converts it. With asynchronous updates it also
#'   has `staleness` and `max_staleness`: the mean and largest number of updates that others applied while a
#'   worker computed one.
#' @section Errors: `tfmuster_error_strategy` with the field `reason`; `tfmuster_error_model`,
#'   `tfmuster_error_data`; `tfmuster_error_worker` if too few workers are left.
#' @export
#' @examplesIf tfmuster_available()
#' \donttest{
#' # Two workers and a parameter server:
#' train <- function(strategy) {
#'   tf <- reticulate::import("tensorflow")
#'   digits <- synthetic(seed = 1, train = 640, test = 64)
#'   batches <- function(context) {
#'     rows <- reticulate::tuple(digits$x_train, digits$y_train)
#'     own <- tf$data$Dataset$from_tensor_slices(rows)
#'     own <- own$shard(context$num_input_pipelines, context$input_pipeline_id)
#'     own$shuffle(640L)$batch(64L)
#'   }
#'   ps_fit(mnist_model("softmax"), batches, epochs = 2, steps_per_epoch = 10)
#' }
#' launch(
#'   train, workers = 2, control = launch_control(strategy = "parameter_server", ps = 1),
#'   run_dir = tempfile("run"), quiet = TRUE
#' )
#' }
ps_fit <- function(model, dataset_fn, epochs = 1, steps_per_epoch = NULL, updates = "async",
                   replicas_to_aggregate = NULL, validation_data = NULL, callbacks = list(),
                   verbose = "auto", strategy = NULL) {
  check_own(
    model = "model", dataset_fn = "fn", epochs = "positive", steps_per_epoch = "count", updates = "string",
    replicas_to_aggregate = "count", strategy = "strategy?", kind = "strategy"
  )
  run_python(
    "ps_fit", model, dataset_fn,
    epochs = as_whole(epochs), steps_per_epoch = as_whole(steps_per_epoch), updates = updates,
    replicas_to_aggregate = as_whole(replicas_to_aggregate), validation_data = validation_data,
    callbacks = as_callbacks(callbacks), verbose = as_whole(verbose), strategy = strategy
  )
}
