#' Evaluate the checkpoints of a job while it trains
#'
#' Call this in the evaluator task of a cluster (`launch_control(evaluator = TRUE)`). It evaluates every new
#' checkpoint, prints the result, and returns when the job ends. [train_mnist()] calls it automatically there.
#'
#' @param model The same compiled model as in training; it gets the weights of each checkpoint.
#' @param data Data to evaluate on: `list(x, y)`, or a `tf.data.Dataset` that ends.
#' @param folder Folder of the checkpoints, see [callback_checkpoint()]. Default: `checkpoints` in the run
#'   directory of the job.
#' @param verbose Whether to print a line per checkpoint.
#' @return A data frame with a row per evaluated checkpoint: `step` (updates of the weights), `time` (seconds
#'   since 1970), `loss`, and the model's metrics. The file `evaluations.jsonl` in the run directory has the
#'   same.
#' @section Errors: `tfmuster_error_strategy` if this task is not an evaluator; `tfmuster_error_checkpoint`,
#'   `tfmuster_error_rendezvous`, `tfmuster_error_worker`.
#' @export
#' @examplesIf tfmuster_available()
#' \donttest{
#' train <- function() {
#'   digits <- synthetic(seed = 1, train = 640, test = 64)
#'   if (current_task()$type == "evaluator") {
#'     evaluate_checkpoints(mnist_model("softmax"), list(digits$x_test, digits$y_test))
#'   } else {
#'     train_mnist("softmax", digits, epochs = 2, checkpoint_every = "epoch")$history
#'   }
#' }
#' values <- launch(
#'   train, workers = 1, control = launch_control(evaluator = TRUE),
#'   run_dir = tempfile("run"), quiet = TRUE
#' )
#' values[["evaluator 0"]]
#' }
evaluate_checkpoints <- function(model, data, folder = NULL, verbose = TRUE) {
  check_own(folder = "name", verbose = "flag", model = "model", data = "examples")
  share_variables()
  say_how_it_ends()
  found <- run_python(
    "evaluate_checkpoints", model, data,
    folder = as_path(folder), verbose = verbose
  )
  as.data.frame(do.call(rbind, lapply(found, unlist)))
}
