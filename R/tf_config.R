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
  check_class(task, "Task", "task", "cluster_task()")
  run_python("tf_config_json", task, pretty = pretty)
}

#' @rdname tf_config_json
#' @export
use_tf_config <- function(task) {
  check_class(task, "Task", "task", "cluster_task()")
  text <- run_python("use_tf_config", task)
  Sys.setenv(TF_CONFIG = text)
  invisible(text)
}

#' @rdname tf_config_json
#' @export
parse_tf_config <- function(text) {
  run_python("parse_tf_config", text)
}

#' @rdname tf_config_json
#' @export
current_task <- function() {
  share_tf_config()
  run_python("current_task")
}

#' TF_CONFIG inside sparklyr's `spark_apply(..., barrier = TRUE)`
#'
#' With `barrier = TRUE` Spark starts all partitions at once, and sparklyr tells each of them the addresses of
#' all. Every partition becomes a worker. The ports of the addresses are in use: partition 0 gets the port
#' after `base_port`, partition 1 the next, and so on. These ports must be free on all executors, and open
#' between them.
#'
#' [launch()] with `backend = "spark"` needs no ports to be chosen, and tells more when something fails; this
#' function is for programs that are written with sparklyr. `vignette("spark")` has one.
#'
#' @param barrier The second argument of the function given to `spark_apply()`: a list with `address`, the
#'   address of each partition's executor, and `partition`, the number of this one, from 0 on.
#' @param base_port The number before the first port.
#' @return The text, for the variable `TF_CONFIG`: `Sys.setenv(TF_CONFIG = tf_config_from_barrier(barrier))`
#'   does where no Python runs yet, as in a fresh executor; `use_tf_config(parse_tf_config(text))` always.
#' @section Errors: `tfmuster_error_cluster` if it is no such barrier, or no cluster can be made of it.
#' @export
#' @examplesIf tfmuster_available(tensorflow = FALSE)
#' barrier <- list(address = c("10.0.0.5:41231", "10.0.0.6:40987"), partition = 1L)
#' tf_config_from_barrier(barrier)
tf_config_from_barrier <- function(barrier, base_port = 8000) {
  run_python("tf_config_from_barrier", barrier, as_whole(base_port))
}
