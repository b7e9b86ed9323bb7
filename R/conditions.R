# What the core reports as data, raised as R conditions.

abort_tfmuster <- function(error, call = rlang::caller_env(), parent = NULL) {
  the$raised <- error[c("kind", "message", "found")]
  # What a failed program has written, or somebody in a description of a cluster, stays as it is.
  said <- if (error$kind %in% c("worker", "cluster")) function(text, ...) text else in_r
  fields <- error[setdiff(names(error), c("message", "call", "trace", "parent", "body", "footer"))]
  rlang::inject(cli::cli_abort(
    c(
      bullet(said(error$message)), bullet(said(error$found, words = FALSE), "x"),
      bullet(said(error$fix), "i")
    ),
    class = c(paste0("tfmuster_error_", error$kind), "tfmuster_error"),
    call = call,
    # It ends with the function that was called, and not in here.
    trace = rlang::trace_back(bottom = call),
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

# What the core says of the command line, said of the functions of this package and the arguments of launch().
# `words`: also what is no option; not where a path or a value is quoted that may hold it.
in_r <- function(text, words = TRUE) {
  if (is.null(text)) {
    return(NULL)
  }
  # A word is an option's value only where it looks like one: "leave --copy out" is a sentence.
  value <- "(?:[= ](?=[^ `]*[0-9/:=])([^ ,;`)]+(?:,[^ ,;`)]+)*(?<![.])))?"
  option <- paste0("(?:--(", paste(names(option_arguments()), collapse = "|"), ")|-([nH]))(?![a-z-])", value)
  commands <- paste0("tfmuster launch(?: ", option, ")*(?: (?:\\.\\.\\.|SCRIPT))?")
  commands <- gregexpr(commands, text, perl = TRUE)
  regmatches(text, commands) <- lapply(regmatches(text, commands), as_call, option = option)
  options <- gregexpr(paste0("(?<![^ (`\"])", option), text, perl = TRUE)
  regmatches(text, options) <- lapply(regmatches(text, options), as_argument, option = option)
  for (pattern in names(words_in_r)[words]) text <- gsub(pattern, words_in_r[[pattern]], text, perl = TRUE)
  text
}

words_in_r <- c(
  ",? or(?: one a line in)? --hostfile" = "",
  "\\btfmuster runs list\\b" = "run_list()",
  "\\btfmuster doctor\\b" = "tfmuster_doctor()",
  "\\b=(?=True\\b|False\\b)" = " = ",
  "\\b(True|False)\\b" = "\\U\\1"
)

as_call <- function(commands, option) {
  vapply(commands, function(command) {
    options <- regmatches(command, gregexpr(option, command, perl = TRUE))[[1]]
    script <- regmatches(command, regexpr("\\.\\.\\.|script", command, ignore.case = TRUE))
    arguments <- c(tolower(script), as_argument(options, option, "..."))
    sprintf("launch(%s)", paste(arguments, collapse = ", "))
  }, "")
}

as_argument <- function(options, option, without = "") {
  vapply(regmatches(options, regexec(option, options, perl = TRUE)), function(found) {
    name <- option_arguments()[[paste0(found[2], found[3])]]
    value <- if (grepl("^[0-9]+$", found[4])) found[4] else dQuote(found[4], FALSE)
    if (is.logical(formals(launch)[[name]])) value <- "TRUE" else if (!nzchar(found[4])) value <- without
    if (nzchar(value)) paste(name, "=", value) else name
  }, "")
}

# The arguments of launch() by the options that are the same; those that can be repeated have one value each.
option_arguments <- function() {
  arguments <- setdiff(names(formals(launch)), c("script", "...", "wait", "args", "strategy", "globals"))
  repeated <- c(file = "files", "backend-option" = "backend_options")
  options <- rlang::set_names(arguments, gsub("_", "-", arguments, fixed = TRUE))
  c(options[!arguments %in% repeated], repeated, n = "workers", H = "hosts")
}
