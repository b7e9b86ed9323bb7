# Raise errors and warnings that the core reports as data as R conditions.

abort_tfmuster <- function(error, call = rlang::caller_env(), parent = NULL) {
  the$raised <- error[intersect(c("kind", "message", "found", "fix", "hints"), names(error))]
  fields <- error[setdiff(names(error), c("message", "call", "trace", "parent", "body", "footer"))]
  rlang::inject(cli::cli_abort(
    c(bullet(error$message), bullet(error$found, "x"), bullet(error$fix, "i")),
    class = c(paste0("tfmuster_error_", error$kind), "tfmuster_error"),
    call = call,
    # End the trace at the function that the user called, not in this file.
    trace = rlang::trace_back(bottom = call),
    parent = parent,
    !!!fields
  ))
}

warn_tfmuster <- function(text, call = rlang::caller_env()) {
  cli::cli_warn(bullet(text), class = "tfmuster_warning", call = call)
}

# One bullet per line. Escape braces: the text can contain user input such as JSON, which cli must not run.
bullet <- function(text, symbol = "") {
  if (is.null(text)) {
    return(NULL)
  }
  lines <- strsplit(text, "\n", fixed = TRUE)[[1]]
  lines <- gsub("}", "}}", gsub("{", "{{", lines, fixed = TRUE), fixed = TRUE)
  rlang::set_names(lines, c(symbol, rep(" ", length(lines)))[seq_along(lines)])
}
