# Raise errors and warnings that the core reports as data as R conditions.

abort_tfmuster <- function(error, call = rlang::caller_env(), parent = NULL) {
  the$raised <- error[c("kind", "message", "found")]
  # Don't translate text from a failed program or from the user's cluster description.
  said <- if (error$kind %in% c("worker", "cluster")) function(text, ...) text else in_r
  fields <- error[setdiff(names(error), c("message", "call", "trace", "parent", "body", "footer"))]
  rlang::inject(cli::cli_abort(
    c(
      bullet(said(error$message)), bullet(said(error$found, words = FALSE), "x"),
      bullet(said(error$fix), "i")
    ),
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

# Translate texts about the command line to this package's functions and the arguments of launch().
# `words`: also translate words that are not options; use FALSE for text with paths or quoted values.
in_r <- function(text, words = TRUE) {
  if (is.null(text)) {
    return(NULL)
  }
  # Take the next word as an option's value only if it looks like one: "leave --copy out" is a sentence.
  is_value <- "(?=[^ `]*[0-9/:=]|(?:slurm|sge|pbs|lsf|mpi|spark|ssh)\\b)"
  value <- paste0("(?:[= ]", is_value, "([^ ,;`)]+(?:,[^ ,;`)]+)*(?<![.])))?")
  option <- paste0("(?:--(", paste(names(option_arguments()), collapse = "|"), ")|-([nH]))(?![a-z-])", value)
  commands <- paste0("tfmuster launch(?: ", option, ")*(?: (?:\\.\\.\\.|SCRIPT))?")
  commands <- gregexpr(commands, text, perl = TRUE)
  regmatches(text, commands) <- lapply(regmatches(text, commands), as_call, option = option)
  # `ulimit -n` is a command of the shell.
  options <- gregexpr(paste0("(?<![^ (`\"])(?<!ulimit )", option), text, perl = TRUE)
  regmatches(text, options) <- lapply(regmatches(text, options), function(options) {
    sub("^backend = \"(.*)\"$", "on = on_\\1()", as_argument(options, option))
  })
  for (pattern in names(words_in_r)[words]) text <- gsub(pattern, words_in_r[[pattern]], text, perl = TRUE)
  text
}

words_in_r <- c(
  ",? or(?: one a line in)? --hostfile" = "",
  "\\btfmuster runs list\\b" = "run_list()",
  "\\btfmuster doctor\\b" = "tfmuster_doctor()",
  "\\bcheckpoint_callback\\(" = "callback_checkpoint(",
  "\\btensorboard_callback\\(" = "callback_tensorboard(",
  "\\b(tfmuster[.])?save_model(?=\\()" = "model_to_file",
  "\\b=(?=True\\b|False\\b)" = " = ",
  "\\b(True|False)\\b" = "\\U\\1"
)

as_call <- function(commands, option) {
  vapply(commands, function(command) {
    options <- regmatches(command, gregexpr(option, command, perl = TRUE))[[1]]
    script <- regmatches(command, regexpr("\\.\\.\\.|script", command, ignore.case = TRUE))
    arguments <- as_argument(options, option, "...")
    sprintf("launch(%s)", paste(c(tolower(script), in_places(arguments)), collapse = ", "))
  }, "")
}

# Put arguments, such as "hosts = ...", where they are now: in on_ssh() and its like, and in launch_control().
in_places <- function(arguments) {
  name <- sub(" = .*", "", arguments)
  value <- sub("^[^=]* = ", "", arguments)
  of_on <- name %in% on_arguments
  of_control <- name %in% names(formals(launch_control))
  backend <- value[name == "backend"]
  backend <- if (length(backend)) gsub("\"", "", backend[1]) else if (any(name == "hosts")) "ssh" else "local"
  settings <- ifelse(name == "backend_options", value, arguments)[of_on & name != "backend"]
  c(
    arguments[!of_on & !of_control],
    if (any(of_on)) sprintf("on = on_%s(%s)", backend, paste(settings, collapse = ", ")),
    if (any(of_control)) {
      sprintf("control = launch_control(%s)", paste(arguments[of_control], collapse = ", "))
    }
  )
}

as_argument <- function(options, option, without = "") {
  vapply(regmatches(options, regexec(option, options, perl = TRUE)), function(found) {
    name <- option_arguments()[[paste0(found[2], found[3])]]
    value <- if (grepl("^[0-9]+$", found[4])) found[4] else dQuote(found[4], FALSE)
    if (launch_arguments[[name]] %in% "flag") value <- "TRUE" else if (!nzchar(found[4])) value <- without
    if (nzchar(value)) paste(name, "=", value) else name
  }, "")
}

# The arguments of launch(), named by the matching options. A repeatable option has one value each time.
option_arguments <- function() {
  arguments <- setdiff(names(launch_arguments), c("wait", "trust_hosts", "packages"))
  repeated <- c(file = "files", "backend-option" = "backend_options")
  options <- rlang::set_names(arguments, gsub("_", "-", arguments, fixed = TRUE))
  c(options[!arguments %in% repeated], repeated, n = "workers", H = "hosts")
}
