# The note of a failure, which the launcher reads, with the lines of the error and of its backtrace. Python's
# is written by tracking/failure/error_file.py. The package has this file by a link in R/, and failure.R
# sources it in the R of a worker. It needs no packages: backtraces of rlang are only there if rlang is.

# Write what this process has failed with. `traceback`, `unprinted`: lines. R has not printed the latter: the
# launcher adds them to the log. `fix`, `hints`: what an error of tfmuster tells its user to do, and the
# settings that it names. `condition`: the condition as a text of condition_text().
write_note <- function(error, traceback, unprinted, fix = NULL, hints = NULL, classes = NULL,
                       condition = NULL, time = as.numeric(Sys.time())) {
  path <- Sys.getenv("TFMUSTER_ERROR_FILE")
  # What this process has noted before, such as a stall of the job, is the cause.
  before <- if (file.exists(path)) readLines(path, warn = FALSE)
  if (!nzchar(path) || any(grepl(paste0("\"pid\": *", Sys.getpid(), "[,}]"), before))) {
    return(invisible())
  }
  note <- list(
    time = time, pid = Sys.getpid(), error = error, traceback = paste(traceback, collapse = "\n"),
    unprinted = unprinted, fix = if (is.character(fix)) fix, hints = hints, classes = as.list(classes),
    condition = condition, python = python_used()
  )
  part <- paste0(path, ".part")
  writeLines(json(Filter(length, note)), part, useBytes = TRUE)
  invisible(file.rename(part, path))
}

# The Python that reticulate has started, or has tried to.
python_used <- function() {
  if (!"reticulate" %in% loadedNamespaces()) {
    return(NULL)
  }
  started <- if (reticulate::py_available()) reticulate::py_config()$python
  if (is.null(started)) Sys.getenv("RETICULATE_PYTHON") else started
}

# Lists, numbers, logical values, and lines of text, as JSON.
json <- function(x) {
  if (is.list(x)) {
    values <- vapply(x, json, "")
    if (is.null(names(x))) {
      return(paste0("[", paste(values, collapse = ", "), "]"))
    }
    return(paste0("{", paste0("\"", names(x), "\": ", values, collapse = ", "), "}"))
  }
  if (!is.character(x)) {
    return(if (length(x) == 1 && is.finite(x)) tolower(format(x, digits = 15)) else "null")
  }
  text <- gsub("([\"\\\\])", "\\\\\\1", without_color(paste(enc2utf8(x), collapse = "\n")))
  text <- gsub("\t", "\\t", gsub("\n", "\\n", text, fixed = TRUE), fixed = TRUE)
  paste0("\"", gsub("[[:cntrl:]]", " ", text), "\"")
}

without_color <- function(text) gsub("\033\\[[0-9;]*m", "", text)

# The lines of an error, the first with the error itself: as R prints it, or as rlang does.
error_lines <- function(condition, said = conditionMessage(condition),
                        as_rlang = inherits(condition, "rlang_error")) {
  call <- text_of(conditionCall(condition))
  place <- if (as_rlang) {
    rlang::format_error_call(if (!is.null(call)) str2lang(call))
  } else if (!is.null(call)) {
    paste0(sub("\n.*", "", call), " ")
  }
  place <- if (is.null(place)) "Error:" else paste0("Error in ", place, ":")
  strsplit(without_color(paste(place, trimws(said))), "\n", fixed = TRUE)[[1]]
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
  if (!inherits(trace, "rlang_trace")) {
    trace <- if (has_rlang()) rlang::trace_back(bottom = sys.frame(raised)) else calls_until(raised)
  }
  lines <- if (!inherits(condition, "tfmuster_error")) python_traceback(said)
  frames <- add_python_frames(as_frames(trace), lines)
  if (length(frames$call)) frames
}

# Python's lines of the traceback of an error with this text. reticulate keeps the one of the last error.
python_traceback <- function(said) {
  last <- if ("reticulate" %in% loadedNamespaces()) reticulate::py_last_error()
  if (is_of(last, said)) unlist(last$traceback)
}

# Whether an error with this text is the last one of Python.
is_of <- function(last, said) {
  has <- function(part) grepl(plain_text(part), plain_text(said), fixed = TRUE)
  !is.null(last) && has(last$type) && has(last$value)
}

plain_text <- function(text) gsub("[[:space:]]+", " ", without_color(text))

# With Python's frames in place of the calls of reticulate that lead to them.
add_python_frames <- function(frames, lines) {
  if (length(lines)) {
    own <- !grepl("^reticulate::", frames$call)
    frames <- lapply(frames, function(column) column[own])
    frames$parent <- seq_along(frames$call) - 1L
  }
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
  lines <- if (has_rlang()) {
    trace <- as_trace(frames[setdiff(names(frames), "python")])
    if (!is.null(trace)) without_color(format(trace, simplify = "branch"))
  } else {
    numbers <- seq_along(frames$call)
    sprintf("%*d. %s", nchar(length(numbers)) + 1L, numbers, frames$call)
  }
  python <- if (!is.null(frames$python)) strsplit(frames$python, "\n", fixed = TRUE)[[1]]
  if (length(lines)) c("Backtrace:", lines, if (length(python)) c("Traceback of Python:", python))
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
