# Lists of runs, which run_list() returns.

#' @export
as.data.frame.tfmuster_runs <- function(x, ...) {
  facts <- lapply(x, function(run) {
    status <- run_status(run)
    data.frame(
      name = basename(run$path), state = status$state, tasks = length(status$tasks),
      started = as_time(run_python("Run.info", run)$started),
      progress = run_python("last_epoch", run)
    )
  })
  none <- data.frame(
    name = character(), state = character(), tasks = integer(), started = as_time(character()),
    progress = character()
  )
  do.call(rbind, c(list(none), unname(facts)))
}

#' @export
print.tfmuster_runs <- function(x, ...) {
  if (!length(x)) {
    cat("No runs.\n")
    return(invisible(x))
  }
  table <- as.data.frame(x)[c("name", "state", "started", "progress")]
  table$started <- format(table$started, "%m-%d %H:%M")
  print_narrow(table, "progress", optional = "started")
  invisible(x)
}

# Print a table that fits the console: the last column is cut and, if it has no room, `optional` is left out.
print_narrow <- function(table, last, optional) {
  width_of <- function(name) max(nchar(c(name, format(table[[name]]))))
  widths <- 1 + vapply(setdiff(names(table), last), width_of, 1L)
  # The mark of what is cut has a place of its own, and print() keeps a margin.
  room <- getOption("width") - 4 - sum(widths)
  if (room < 12) {
    table[[optional]] <- NULL
    room <- max(12, room + widths[[optional]])
  }
  table[[last]] <- cli::ansi_strtrim(table[[last]], room)
  print(table, right = FALSE, row.names = FALSE)
}

#' @export
`[.tfmuster_runs` <- function(x, i) {
  chosen <- structure(NextMethod(), class = "tfmuster_runs")
  if (anyNA(names(chosen))) {
    there <- if (length(x)) paste(names(x), collapse = ", ") else "none"
    abort_argument("The index must be in the list of runs.", i, paste("The runs are:", there))
  }
  chosen
}
