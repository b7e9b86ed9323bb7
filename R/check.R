#' Check a cluster
#'
#' Reports all problems of a cluster description that would later make TensorFlow hang or fail. Each finding
#' has a code, a location, the invalid value, and a fix.
#'
#' @param source The description to check: the path of a JSON or YAML file, a JSON or YAML text, a list, or a
#'   cluster. A text has a line break, or starts with a brace or bracket. Default: the environment variable
#'   TF_CONFIG, unless you pass addresses.
#' @inheritParams cluster_spec
#' @param type,index The task of this process, to check it together with the cluster.
#' @param connect `TRUE` also checks whether this machine can reach every other task.
#' @param timeout Seconds to wait for each address.
#' @return A Python object of class `tfmuster.Report` with the fields `ok`, `errors`, `warnings`, `findings`,
#'   `task`, and `cluster`. `as.data.frame()` returns the findings, one per row. An invalid description does
#'   not raise an R error.
#' @export
#' @examplesIf tfmuster_available(tensorflow = FALSE)
#' report <- check_cluster(worker = c("10.0.0.1:2222", "10.0.0.1:2222", "10.0.0.2"))
#' report
#' report$ok
#' as.data.frame(report)
check_cluster <- function(source = NULL, worker = character(), ps = character(), chief = character(),
                          evaluator = character(), type = NULL, index = NULL, connect = FALSE,
                          timeout = 3) {
  check_own(
    source = "source?", worker = "addresses", ps = "addresses", chief = "addresses", evaluator = "addresses",
    type = "name", index = "share", connect = "flag", timeout = "duration", kind = "cluster"
  )
  share_variables()
  run_python(
    "check_cluster", source,
    worker = as_addresses(worker), ps = as_addresses(ps), chief = as_addresses(chief),
    evaluator = as_addresses(evaluator), type = type, index = as_whole(index), connect = connect,
    timeout = timeout
  )
}

#' @exportS3Method as.data.frame tfmuster.Report
as.data.frame.tfmuster.Report <- function(x, ...) { # nolint: object_name_linter.
  columns <- c("severity", "code", "where", "value", "message", "fix")
  findings <- x$to_dict()$findings
  column <- function(name) vapply(findings, function(f) as.character(f[[name]] %||% ""), character(1))
  as.data.frame(lapply(rlang::set_names(columns), column))
}

#' @exportS3Method print tfmuster.Report
print.tfmuster.Report <- function(x, ...) { # nolint: object_name_linter.
  findings <- as.data.frame(x)
  for (i in seq_len(nrow(findings))) {
    finding <- findings[i, ]
    symbol <- if (finding$severity == "error") cli::col_red(cli::symbol$cross) else cli::col_yellow("!")
    cli::cat_line(symbol, " ", cli::style_bold(finding$where), ": ", finding$message, " (", finding$code, ")")
    if (nzchar(finding$value)) cli::cat_line("  found: ", finding$value)
    cli::cat_line("  to do: ", finding$fix)
  }
  if (isTRUE(x$ok)) {
    cli::cat_line(cli::col_green(cli::symbol$tick), " The cluster can be used.")
  }
  invisible(x)
}
