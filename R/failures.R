# How an R program fails on a worker: its condition, where R and Python raised it, and what the session says
# of it. Backtraces are sent as texts, because another session reads them.

# Write down the failure of a function, and return the exit code of its process. `raised`: the number of the
# frame that raised the error, if it is still there. `save`: writes the condition, as plain data, for the
# session.
fail_on_call <- function(condition, save, raised = NULL) {
  frames <- if (!is.null(raised)) tryCatch(frames_of(condition, raised), error = function(e) NULL)
  condition <- tryCatch(cause_of(condition), error = function(e) condition)
  if (inherits(condition, "tfmuster_callback_error")) frames <- condition$frames
  try(save(plain_condition(condition, frames)), silent = TRUE)
  said <- error_lines(condition)
  cat(said[1], "\n", sep = "", file = stderr())
  tell_failure(said[1], c(said[-1], frame_lines(frames)), condition)
  if (inherits(condition, "tfmuster_error_rendezvous")) 3L else 1L
}

# The condition behind an error that has passed through Python, which keeps only its text: that of a function
# of r_callback(), or an error of the core.
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
  unprinted <- paste(unprinted, collapse = "\n")
  # What startup.R has seen before, of a script.
  seen <- getOption("tfmuster.failed")
  is_seen <- is.character(seen$said) && grepl(plain_text(seen$said), plain_text(said), fixed = TRUE)
  seen <- if (is_seen) seen else list(classes = if (inherits(error, "condition")) class(error))
  try(run_python("report_end", said), silent = TRUE)
  try(
    run_python(
      "leave_r_note", said, unprinted, fix = ours$fix, hints = ours$hints, classes = as.list(seen$classes),
      condition = seen$condition
    ),
    silent = TRUE
  )
}

# The lines of an error, the first with the error itself, as rlang shows them but not wrapped.
error_lines <- function(condition) {
  rlang::local_options(cli.width = 10000)
  place <- rlang::format_error_call(str2lang(text_of(conditionCall(condition)) %||% "NULL"))
  place <- if (is.null(place)) "Error:" else paste0("Error in ", place, ":")
  text <- paste(place, trimws(conditionMessage(condition)))
  strsplit(cli::ansi_strip(text), "\n", fixed = TRUE)[[1]]
}

# The number of the frame that raised an error, for its calling handler, whose frame has the number `handler`.
raised_at <- function(handler) {
  by_r <- handler > 1 && identical(sys.function(handler - 1), base::.handleSimpleError)
  handler - if (by_r) 2 else 1
}

# The backtrace of an error: R's frames from the function on, then Python's. A list with the texts `call`, the
# numbers `parent` of their callers, `visible`, `scope`, and Python's own text in `python`; NULL if empty.
frames_of <- function(condition, raised, said = conditionMessage(condition)) {
  trace <- if (is.list(condition)) condition$trace
  if (!inherits(trace, "rlang_trace")) trace <- rlang::trace_back(bottom = sys.frame(raised))
  lines <- if (!inherits(condition, "tfmuster_error")) python_traceback(said)
  frames <- add_python_frames(as_frames(trace), lines)
  if (length(frames$call)) frames
}

# Python's lines of the traceback of an error with this text. reticulate keeps the one of the last error.
python_traceback <- function(said) {
  last <- reticulate::py_last_error()
  if (is_of(last, said)) unlist(last$traceback)
}

# Whether an error with this text is the last one of Python.
is_of <- function(last, said) {
  has <- function(part) grepl(plain_text(part), plain_text(said), fixed = TRUE)
  !is.null(last) && has(last$type) && has(last$value)
}

add_python_frames <- function(frames, lines) {
  found <- regmatches(lines, regexec("File \"(.*)\", line ([0-9]+), in ([^\n]*)", lines))
  for (place in Filter(length, found)) {
    path <- paste(utils::tail(strsplit(place[2], "/", fixed = TRUE)[[1]], 3), collapse = "/")
    frames$call <- c(frames$call, sprintf("%s() at %s:%s", place[4], path, place[3]))
    frames$parent <- c(frames$parent, length(frames$parent))
    frames$visible <- c(frames$visible, TRUE)
    frames$scope <- c(frames$scope, NA)
  }
  if (length(lines)) frames$python <- paste(lines, collapse = "")
  frames
}

# The lines of a backtrace in the log.
frame_lines <- function(frames) {
  trace <- as_trace(frames[setdiff(names(frames), "python")])
  if (is.null(trace)) {
    return(character())
  }
  python <- if (!is.null(frames$python)) strsplit(frames$python, "\n", fixed = TRUE)[[1]]
  c(
    "Backtrace:", cli::ansi_strip(format(trace, simplify = "branch")),
    if (length(python)) c("Traceback of Python:", python)
  )
}

# rlang's trace of frames that a worker has written, or NULL. Its calls are names: nothing is evaluated.
as_trace <- function(frames) {
  rows <- seq_along(frames$call)
  if (!length(rows)) {
    return(NULL)
  }
  texts <- gsub("[[:cntrl:]]", " ", paste0(frames$call, ifelse(nzchar(frames$call), "", " ")))
  parent <- as.integer(frames$parent)
  if (anyNA(parent) || any(parent < 0 | parent >= rows)) parent <- rows - 1L
  trace <- rlang::trace_back()
  columns <- list(
    call = lapply(texts, as.name), parent = parent, visible = as.logical(frames$visible),
    namespace = rep(NA_character_, length(rows)), scope = as.character(frames$scope)
  )
  trace <- structure(columns, row.names = rows, class = class(trace), version = attr(trace, "version"))
  # What another version of rlang can't show is left out.
  tryCatch(
    {
      format(trace)
      trace
    },
    error = function(e) NULL
  )
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
  texts <- run_python("failure_texts", error, has_cause = !is.null(parent), shown = shown)
  list(error = utils::modifyList(error, texts, keep.null = TRUE), parent = parent)
}

# The condition that an R script has failed with, made of what its R has noted, or NULL.
script_condition <- function(error) {
  lines <- strsplit(error$traceback %||% "", "\n", fixed = TRUE)[[1]]
  begin <- match("Backtrace:", lines)
  condition <- noted_condition(error)
  if (is.null(condition) && !is.na(begin)) condition <- said_condition(error, lines[seq_len(begin - 1)])
  if (is.na(begin) || is.null(condition)) {
    return(condition)
  }
  lines <- lines[-seq_len(begin)]
  rows <- grepl("^ *[0-9]+[.] ", lines)
  calls <- sub("^ *[0-9]+[.] ", "", lines[rows])
  frames <- list(
    call = sub("^global ", "", calls), parent = seq_along(calls) - 1L, visible = rep(TRUE, length(calls)),
    scope = ifelse(startsWith(calls, "global "), "global", NA)
  )
  condition$trace <- as_trace(add_python_frames(frames, lines[!rows]))
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
