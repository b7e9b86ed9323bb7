#' Test the checkpoints of a job while it trains
#'
#' What the evaluator of a cluster does (`launch(..., evaluator = TRUE)`): it tests every new checkpoint,
#' prints what it found, and returns when the job is over. [train_mnist()] calls it by itself there.
#'
#' @param model The same compiled model as is trained; it gets the weights of each checkpoint.
#' @param data What to test on: `list(x, y)`, or a `tf.data.Dataset` that ends.
#' @param folder Where the checkpoints are, see [checkpoint_callback()]. `NULL`: `checkpoints` in the run
#'   directory of the job.
#' @param verbose Whether to print a line for each.
#' @return A data frame with a row for each checkpoint that was tested: `step` (updates of the weights),
#'   `time` (seconds since 1970), `loss` and the model's metrics. The same is in `evaluations.jsonl` in the
#'   run directory.
#' @section Errors: `tfmuster_error_strategy` where this is no evaluator; `tfmuster_error_checkpoint`,
#'   `tfmuster_error_rendezvous`, `tfmuster_error_worker`.
#' @export
#' @examples
#' # train.R, to be started by launch("train.R", workers = 2, evaluator = TRUE)
#' train <- function() {
#'   if (current_task()$type == "evaluator") {
#'     digits <- mnist()
#'     evaluate_checkpoints(mnist_model("softmax"), list(digits$x_test, digits$y_test))
#'   } else {
#'     train_mnist("softmax", checkpoint_every = "epoch")
#'   }
#' }
evaluate_checkpoints <- function(model, data, folder = NULL, verbose = TRUE) {
  given <- list(folder = folder, verbose = verbose)
  check_arguments(given, c(folder = "name", verbose = "flag"), kind = "error")
  share_tf_config()
  say_how_it_ends()
  found <- run_python(
    "evaluate_checkpoints", model, data,
    folder = as_path(folder), verbose = verbose
  )
  as.data.frame(do.call(rbind, lapply(found, unlist)))
}
