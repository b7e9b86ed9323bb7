# What the core reports as data, raised as R conditions.

abort_tfmuster <- function(error, call = rlang::caller_env(), parent = NULL) {
  the$raised <- error[c("kind", "message", "found")]
  fields <- error[setdiff(names(error), c("message", "call", "trace", "parent", "body", "footer"))]
  rlang::inject(cli::cli_abort(
    c(bullet(error$message), bullet(error$found, "x"), bullet(error$fix, "i")),
    class = c(paste0("tfmuster_error_", error$kind), "tfmuster_error"),
    call = call,
    parent = parent,
    !!!fields
  ))
}

warn_tfmuster <- function(text, call = rlang::caller_env()) {
  cli::cli_warn(bullet(text), class = "tfmuster_warning", call = call)
}

# One bullet for each line. The text holds what a user wrote, JSON for one: its braces are not code to run.
bullet <- function(text, symbol = "") {
  if (is.null(text)) {
    return(NULL)
  }
  lines <- strsplit(text, "\n", fixed = TRUE)[[1]]
  lines <- gsub("}", "}}", gsub("{", "{{", lines, fixed = TRUE), fixed = TRUE)
  rlang::set_names(lines, c(symbol, rep(" ", length(lines)))[seq_along(lines)])
}
