#' Write, set, and read TF_CONFIG
#'
#' TensorFlow reads its cluster and its task from the environment variable TF_CONFIG. `tf_config_json()`
#' returns the text, `use_tf_config()` sets the variable, `parse_tf_config()` reads a text, and
#' `current_task()` returns the task that the variable names.
#'
#' The Python core writes the text, so R and Python return the same bytes. They equal those of
#' `jsonlite::toJSON(auto_unbox = TRUE)` with the vectors of addresses protected by `I()`. Without `I()`,
#' jsonlite writes a single worker as a string, which TensorFlow rejects. `parse_tf_config()` corrects this,
#' and an index written as a string, with a `tfmuster_warning`.
#'
#' `use_tf_config()` sets the variable for Python, running or not, and for processes that R starts.
#' `Sys.setenv()` alone does not change it in a running Python; a strategy that is made later still finds it.
#'
#' @param task A task, from [cluster_task()].
#' @param pretty `TRUE` for a readable text on several lines.
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
#'
#' jobs <- '"cluster": {"worker": ["a:2222", "b:2222"]}'
#' parse_tf_config(sprintf('{%s, "task": {"type": "worker", "index": 1}}', jobs))
tf_config_json <- function(task, pretty = FALSE) {
  check_own(task = "task", pretty = "flag", kind = "cluster")
  run_python("tf_config_json", task, pretty = pretty)
}

#' @rdname tf_config_json
#' @export
use_tf_config <- function(task) {
  check_own(task = "task", kind = "cluster")
  text <- run_python("use_tf_config", task)
  Sys.setenv(TF_CONFIG = text)
  invisible(text)
}

#' @rdname tf_config_json
#' @export
parse_tf_config <- function(text) {
  check_own(text = "string", kind = "cluster")
  run_python("parse_tf_config", text)
}

#' @rdname tf_config_json
#' @export
current_task <- function() {
  share_variables()
  run_python("current_task")
}

#' TF_CONFIG inside sparklyr's `spark_apply(..., barrier = TRUE)`
#'
#' With `barrier = TRUE`, Spark starts all partitions at once, and sparklyr passes the addresses of all to
#' each of them. Every partition becomes a worker. The ports of the addresses are in use, so partition 0 gets
#' the port after `base_port`, partition 1 the next one, and so on. These ports must be free on all executors,
#' and open between them.
#'
#' Use this function in programs that are written with sparklyr, such as the one in `vignette("spark")`.
#' [launch()] with [on_spark()] needs no choice of ports, and reports more when something fails.
#'
#' @param barrier The second argument of the function passed to `spark_apply()`: a list with `address`, the
#'   address of each partition's executor, and `partition`, the number of this partition, from 0.
#' @param base_port The number before the first port.
#' @return The text for the variable `TF_CONFIG`. If Python is not running, as in a new executor, use
#'   `Sys.setenv(TF_CONFIG = tf_config_from_barrier(barrier))`. In any process, use
#'   `use_tf_config(parse_tf_config(text))`.
#' @section Errors: `tfmuster_error_cluster` if `barrier` is not such a list, or does not describe a cluster.
#' @export
#' @examplesIf tfmuster_available(tensorflow = FALSE)
#' barrier <- list(address = c("10.0.0.5:41231", "10.0.0.6:40987"), partition = 1L)
#' tf_config_from_barrier(barrier)
tf_config_from_barrier <- function(barrier, base_port = 8000) {
  check_own(barrier = "any", base_port = "port", kind = "cluster")
  run_python("tf_config_from_barrier", barrier, as_whole(base_port))
}
