#' Describe a cluster
#'
#' A cluster lists the address of every task of a TensorFlow job. It is the same on every machine; only the
#' task differs, see [cluster_task()].
#'
#' @param worker,chief,ps,evaluator Character vectors of addresses `"host:port"`. The host is a DNS name, an
#'   IPv4 address, or an IPv6 address in brackets. The position in the vector is the task's index, from 0.
#'   Without a chief, worker 0 acts as the chief. `ps` are parameter servers.
#' @param ... Must be empty: name all addresses but those of the workers.
#' @param path A JSON or YAML file with a cluster: `worker: ["a:2222", "b:2222"]`.
#' @return An immutable Python object of class `tfmuster.Cluster` with the fields `jobs` and `digest` (the
#'   same on every machine), and one field per job. `==` compares two clusters, `length()` counts the tasks.
#' @section Errors: `tfmuster_error_cluster`, whose field `findings` lists all problems.
#' @seealso [check_cluster()], which reports instead of raising an error, and [parse_tf_config()], whose task
#'   has the cluster of a TF_CONFIG text.
#' @export
#' @examplesIf tfmuster_available(tensorflow = FALSE)
#' cluster <- cluster_spec(c("10.0.0.1:2222", "10.0.0.2:2222"))
#' cluster
#' length(cluster)
#'
#' file <- tempfile(fileext = ".yaml")
#' writeLines("worker: ['10.0.0.1:2222', '10.0.0.2:2222']", file)
#' cluster_from_file(file) == cluster
cluster_spec <- function(worker = character(), ..., chief = character(), ps = character(),
                         evaluator = character()) {
  if (...length()) {
    abort_argument(
      "The addresses of a cluster without a name are those of the workers.", list(...)[[1]],
      "Name the others: cluster_spec(c(\"a:2222\", \"b:2222\"), chief = \"c:2222\").",
      kind = "cluster"
    )
  }
  check_own(
    worker = "addresses", chief = "addresses", ps = "addresses", evaluator = "addresses", kind = "cluster"
  )
  run_python(
    "Cluster",
    chief = as_addresses(chief), worker = as_addresses(worker),
    ps = as_addresses(ps), evaluator = as_addresses(evaluator)
  )
}

#' @rdname cluster_spec
#' @export
cluster_from_file <- function(path) {
  check_own(path = "string", kind = "cluster")
  run_python("Cluster.from_file", as_path(path))
}

#' One task of a cluster
#'
#' @param cluster A cluster, from [cluster_spec()].
#' @param type The job: `"chief"`, `"worker"`, `"ps"` or `"evaluator"`.
#' @param index The task's index in its job, from 0.
#' @return A Python object of class `tfmuster.Task` with the fields `type`, `index`, `address`,
#'   `name`, `is_chief` and `cluster`.
#' @section Errors: `tfmuster_error_cluster` when the cluster has no such task.
#' @export
#' @examplesIf tfmuster_available(tensorflow = FALSE)
#' cluster <- cluster_spec(worker = c("10.0.0.1:2222", "10.0.0.2:2222"))
#' cluster_task(cluster, "worker", 1)
cluster_task <- function(cluster, type, index) {
  check_own(cluster = "cluster", type = "string", index = "integer", kind = "cluster")
  run_python("Cluster.task", cluster, type, as_whole(index))
}

# Always return a list, so that one address becomes a Python list and not a string; NA becomes None.
as_addresses <- function(x) {
  if (is.atomic(x)) unname(lapply(x, function(address) if (is.na(address)) NULL else address)) else x
}

#' @exportS3Method print tfmuster.Cluster
print.tfmuster.Cluster <- function(x, ...) { # nolint: object_name_linter.
  lines <- strsplit(reticulate::py_str(x), "\n", fixed = TRUE)[[1]]
  cli::cat_line(cli::style_bold(lines[1]))
  cli::cat_line(lines[-1])
  cli::cat_line(cli::col_grey("  digest ", substr(x$digest, 1, 12)))
  invisible(x)
}

#' @exportS3Method print tfmuster.Task
print.tfmuster.Task <- function(x, ...) { # nolint: object_name_linter.
  tasks <- length(x$cluster)
  cli::cat_line(
    cli::style_bold(reticulate::py_str(x)), if (x$is_chief) ", the chief",
    cli::col_grey(", in a cluster of ", tasks, if (tasks == 1) " task" else " tasks")
  )
  invisible(x)
}
