# How an R program fails on a worker, and what the session says of it. Backtraces are sent as texts, because
# another session reads them.

# Write down the failure of a function, and return the exit code of its process. `raised`: the number of the
# frame that raised the error, if it is still there. `save`: writes the condition, as plain data, for the
# session.
fail_on_call <- function(condition, save, raised = NULL) {
  frames <- if (!is.null(raised)) tryCatch(frames_of(condition, raised), error = function(e) NULL)
  condition <- tryCatch(cause_of(condition), error = function(e) condition)
  if (inherits(condition, "tfmuster_callback_error")) frames <- condition$frames
  try(save(plain_condition(condition, frames)), silent = TRUE)
  rlang::local_options(cli.width = 10000)
  said <- error_lines(condition, as_rlang = TRUE)
  cat(said[1], "\n", sep = "", file = stderr())
  tell_failure(said[1], c(said[-1], frame_lines(frames)), condition)
  if (inherits(condition, "tfmuster_error_rendezvous")) 3L else 1L
}

# The condition behind an error that has passed through Python, which keeps only its text: that of a function
# of callback_r(), or an error of the core.
cause_of <- function(condition) {
  said <- conditionMessage(condition)
  if (!is.null(the$callback_error) && grepl(the$callback_error$said, said, fixed = TRUE)) {
    return(the$callback_error)
  }
  python <- if (!inherits(condition, "tfmuster_error")) reticulate::py_last_error()
  exception <- attr(python, "exception") %||% condition
  if (is_of(python, said) && inherits(exception, "tfmuster.errors.TfmusterError")) {
    return(tryCatch(abort_tfmuster(reticulate::py_to_r(exception$to_dict()), NULL), error = identity))
  }
  condition
}

# Tell the launcher and the other workers. `unprinted`: lines for the log that R has not printed. `error`: has
# what to do, and the settings that an error of tfmuster names.
tell_failure <- function(said, unprinted, error = NULL) {
  ours <- if (!inherits(error, "condition") || inherits(error, "tfmuster_error")) error
  # What startup.R has seen before, of a script.
  seen <- getOption("tfmuster.failed")
  is_seen <- is.character(seen$said) && grepl(plain_text(seen$said), plain_text(said), fixed = TRUE)
  seen <- if (is_seen) seen else list(classes = if (inherits(error, "condition")) class(error))
  try(run_python("report_end", said), silent = TRUE)
  try(
    write_note(headline(said), unprinted, unprinted, ours$fix, ours$hints, seen$classes, seen$condition),
    silent = TRUE
  )
}

# The error in one line. R starts a long message, or one with several parts, on a new one.
headline <- function(said) {
  lines <- strsplit(paste0(said, "\n"), "\n", fixed = TRUE)[[1]]
  lines <- lines[seq_along(lines) >= max(0, grep("^Error( in .*)?:", lines))]
  first <- trimws(lines[1], "right")
  if (endsWith(first, ":") && length(lines) > 1) paste(first, sub("^[ !]+", "", lines[2])) else first
}

# The condition that plain_condition() has written. str2lang() only parses.
as_condition <- function(plain) {
  if (is.null(plain)) {
    return(NULL)
  }
  if (is.character(plain$call)) {
    plain$call <- tryCatch(str2lang(plain$call), error = function(e) NULL)
  }
  plain$trace <- as_trace(plain$frames)
  plain$frames <- NULL
  plain$parent <- as_condition(plain$parent)
  plain
}

# What the session says of a worker's failure, list(error, parent): the condition that its function has failed
# with is the parent. `shown`: the session has shown the worker's output.
failure_of <- function(error, run_dir, shown) {
  # Not every WorkerError is of a job that this session has launched.
  if (error$kind != "worker" || is.null(error$log)) {
    return(list(error = error))
  }
  parent <- if (!is.null(run_dir)) read_result(run_dir, error$task)$error else script_condition(error)
  error$condition <- NULL
  cause <- if (!is.null(parent)) cli::ansi_strip(conditionMessage(parent))
  texts <- run_python("failure_texts", error, cause = cause, shown = shown)
  list(error = utils::modifyList(error, texts, keep.null = TRUE), parent = parent)
}

# The condition that an R script has failed with: as its R has noted it, or made of the texts of its note.
# NULL if there is none.
script_condition <- function(error) {
  condition <- noted_condition(error)
  lines <- strsplit(error$traceback %||% "", "\n", fixed = TRUE)[[1]]
  begin <- match("Backtrace:", lines)
  if (is.null(condition) && !is.na(begin)) condition <- said_condition(error, lines[seq_len(begin - 1)])
  if (is.na(begin) || is.null(condition) || !is.null(condition$trace)) {
    return(condition)
  }
  calls <- grep("^ *[0-9]+[.] ", lines[-seq_len(begin)], value = TRUE)
  calls <- sub("^ *[0-9]+[.] ", "", calls)
  condition$trace <- as_trace(list(
    call = sub("^global ", "", calls), parent = seq_along(calls) - 1L, visible = rep(TRUE, length(calls)),
    scope = ifelse(startsWith(calls, "global "), "global", NA)
  ))
  condition
}

# With its classes and fields, if the worker's R has sent them.
noted_condition <- function(error) {
  bytes <- run_python("condition_bytes", error$condition)
  condition <- if (is.raw(bytes)) tryCatch(as_condition(unserialize(bytes)), error = function(e) NULL)
  if (rlang::is_error(condition)) condition
}

# With its message and call alone. `rest`: the lines of the message after the first one.
said_condition <- function(error, rest) {
  said <- regmatches(error$error, regexec("^Error(?: in (.*?))? ?: (.*)$", error$error, perl = TRUE))[[1]]
  if (length(said)) {
    call <- if (nzchar(said[2])) tryCatch(str2lang(gsub("^`|`$", "", said[2])), error = function(e) NULL)
    rlang::error_cnd(message = said[3], body = rest, call = call, use_cli_format = FALSE)
  }
}
