# Note the error that ends the R of a worker, with its backtrace, in the file that its launcher reads. Returns
# the function that notes an error, from a calling handler with the number `frame`. startup.R sources this file
# after the first error that nothing has caught. It needs no packages: rlang adds the namespaces.
local({
  source(file.path(site, "condition.R"), local = TRUE)
  most_lines <- 60
  last <- new.env()

  shortened <- function(lines) {
    if (length(lines) <= most_lines) {
      return(lines)
    }
    half <- most_lines / 2
    c(lines[seq_len(half)], "    ...", lines[length(lines) - half + seq_len(half)])
  }
  frames <- function(condition, raised) {
    has_rlang <- raised <= 200 && requireNamespace("rlang", quietly = TRUE)
    if (has_rlang) {
      trace <- if (is.list(condition)) condition$trace
      if (!inherits(trace, "rlang_trace")) trace <- rlang::trace_back(bottom = sys.frame(raised))
      lines <- format(trace, simplify = "branch")
      inner <- grep(" rlang:::signal_abort(", lines, fixed = TRUE)
      if (length(inner)) lines <- lines[seq_len(inner[1] - 1L)]
    } else {
      texts <- vapply(sys.calls()[seq_len(raised)], function(call) deparse(call, 100, nlines = 1)[1], "")
      lines <- sprintf("%*d. %s", nchar(raised) + 1L, seq_along(texts), texts)
    }
    # Errors of C++ code are raised by a call that nothing in R has made.
    shortened(lines[!grepl("stop\\(`?<", lines) | seq_along(lines) < length(lines)])
  }
  of_python <- function(said) {
    error <- if ("reticulate" %in% loadedNamespaces()) reticulate::py_last_error()
    # It may be another error, which the program has handled.
    ours <- !is.null(error$value) && grepl(sub("\n.*", "", error$value), said, fixed = TRUE)
    if (ours) c("Traceback of Python:", sub("\n$", "", unlist(error$traceback)))
  }
  # The lines of the error, the first with its place.
  error_lines <- function(condition, said) {
    call <- conditionCall(condition)
    place <- if (inherits(condition, "rlang_error")) {
      rlang::format_error_call(call)
    } else if (!is.null(call)) {
      paste0(deparse(call, nlines = 1)[1], " ")
    }
    said <- strsplit(said, "\n", fixed = TRUE)[[1]]
    said <- said[cumsum(nzchar(trimws(said))) > 0]
    place <- if (is.null(place)) "Error:" else paste0("Error in ", place, ":")
    c(paste(place, trimws(said[1])), said[-1])
  }
  json <- function(lines) {
    text <- gsub("\033\\[[0-9;]*m", "", paste(enc2utf8(as.character(lines)), collapse = "\n"))
    text <- gsub("([\"\\\\])", "\\\\\\1", text)
    text <- gsub("\t", "\\t", gsub("\n", "\\n", text, fixed = TRUE), fixed = TRUE)
    paste0("\"", gsub("[[:cntrl:]]", " ", text), "\"")
  }
  json_texts <- function(texts) paste0("[", paste(vapply(texts, json, ""), collapse = ", "), "]")
  # The settings that an error of tfmuster names.
  json_hints <- function(hints) {
    value <- function(x) {
      if (length(x) != 1 || is.list(x)) {
        return("null")
      }
      if (is.character(x)) json(x) else tolower(format(x, digits = 15))
    }
    hint <- function(hint) {
      paste0("{\"option\": ", json(hint$option), ", \"value\": ", value(hint$value), "}")
    }
    paste0("[", paste(vapply(hints, hint, ""), collapse = ", "), "]")
  }

  # When R ends: an error that only a part of the program has failed with is no longer the last one.
  write_note <- function(last) {
    path <- Sys.getenv("TFMUSTER_ERROR_FILE")
    # R cuts off long texts, and has none for rlang's errors.
    said <- geterrmessage()
    same <- grepl(substr(last$said, 1, 200), said, fixed = TRUE)
    if (last$by_rlang) same <- same || grepl("^[^\n]*: *(\n|$)", said)
    if (!nzchar(path) || Sys.getpid() != last$pid || !same) {
      return()
    }
    # What this process has noted before, such as a stall of the job, is the cause.
    before <- if (file.exists(path)) readLines(path, warn = FALSE)
    if (any(grepl(paste0("\"pid\": ", last$pid, "[,}]"), before))) {
      return()
    }
    note <- c(
      time = sprintf("%.6f", last$time), pid = last$pid, error = json(last$error[1]),
      traceback = json(c(last$error[-1], last$trace)),
      # rlang has printed its own.
      unprinted = if (length(last$trace) && !last$by_rlang) json(last$trace),
      fix = if (is.character(last$fix)) json(last$fix), hints = json_hints(last$hints),
      classes = json_texts(last$classes), condition = if (!is.null(last$condition)) json(last$condition)
    )
    part <- paste0(path, ".part")
    writeLines(paste0("{", paste0("\"", names(note), "\": ", note, collapse = ", "), "}"), part, useBytes = TRUE)
    file.rename(part, path)
  }

  function(condition, frame) {
    said <- conditionMessage(condition)
    # rlang prints its errors itself, and then raises one without a text.
    if (!nzchar(said)) {
      return()
    }
    by_r <- identical(sys.function(frame - 1L), base::.handleSimpleError)
    raised <- frame - if (by_r) 2L else 1L
    trace <- c(frames(condition, raised), of_python(said))
    if (is.null(last$pid)) reg.finalizer(last, function(last) try(write_note(last), silent = TRUE), onexit = TRUE)
    last$pid <- Sys.getpid()
    last$time <- as.numeric(Sys.time())
    last$said <- said
    last$by_rlang <- inherits(condition, "rlang_error")
    if (inherits(condition, "tfmuster_error")) {
      last$fix <- condition$fix
      last$hints <- condition$hints
    }
    last$error <- error_lines(condition, said)
    last$trace <- if (length(trace)) c("Backtrace:", trace)
    last$classes <- class(condition)
    last$condition <- tryCatch(condition_text(condition), error = function(e) NULL)
    # For the package, which leaves a note of its own where it has made a strategy.
    options(tfmuster.failed = as.list(last))
  }
})
