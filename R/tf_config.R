#' TF_CONFIG: what TensorFlow reads to find its place
#'
#' `tf_config_json()` writes the text, `use_tf_config()` puts it in force, `parse_tf_config()` reads one,
#' and `current_task()` tells the task that is in force.
#'
#' The text is written by the Python core, so R and Python give the same bytes. They equal those of
#' `jsonlite::toJSON(auto_unbox = TRUE)` with the vectors of addresses protected by `I()`; without `I()`,
#' jsonlite writes a lone worker as a string, which TensorFlow refuses. Reading repairs that, and an index
#' written as a string, with a `tfmuster_warning`.
#'
#' `use_tf_config()` sets the variable for Python, running or not, and for the processes that R starts.
#' `Sys.setenv()` alone does not reach a Python that is running.
#'
#' @param task A task, from [cluster_task()].
#' @param pretty `TRUE` for a text to read, on several lines.
#' @param text A TF_CONFIG text.
#' @return `tf_config_json()` and, invisibly, `use_tf_config()`: the text. `parse_tf_config()`: the task.
#'   `current_task()`: the task that TF_CONFIG names, or `NULL` when it is not set.
#' @section Errors: `tfmuster_error_cluster`, with the field `findings`.
#' @export
#' @examplesIf tfmuster_available(tensorflow = FALSE)
#' cluster <- cluster_spec(worker = c("a:2222", "b:2222"))
#' tf_config_json(cluster_task(cluster, "worker", 0))
#'
#' use_tf_config(cluster_task(cluster, "worker", 1))
#' Sys.getenv("TF_CONFIG")
#' current_task()
#' Sys.unsetenv("TF_CONFIG")
tf_config_json <- function(task, pretty = FALSE) {
  run_python("tf_config.tf_config_json", task, pretty = pretty)
}

#' @rdname tf_config_json
#' @export
use_tf_config <- function(task) {
  text <- run_python("tf_config.use_tf_config", task)
  Sys.setenv(TF_CONFIG = text)
  invisible(text)
}

#' @rdname tf_config_json
#' @export
parse_tf_config <- function(text) {
  run_python("tf_config.parse_tf_config", text)
}

#' @rdname tf_config_json
#' @export
current_task <- function() {
  share_tf_config()
  run_python("tf_config.current_task")
}
