# A condition as data, which another session reads. The package has this file by a link in R/, and failure.R
# sources it in the R of a worker. It needs no packages: a condition of rlang is only there if rlang is.

most_frames <- 60

# A condition as data, without frames and Python objects. Calls are text, because a call is more than data.
plain_condition <- function(condition, frames = NULL) {
  kind <- if (inherits(condition, "warning")) "warning" else "error"
  by_rlang <- inherits(condition, c("rlang_error", "rlang_warning"))
  fields <- if (is.list(condition)) unclass(condition)
  own <- Filter(is_data, fields[setdiff(names(fields), not_fields)])
  said <- if (by_rlang) {
    list(
      message = rlang::cnd_header(condition), body = rlang::cnd_body(condition),
      footer = rlang::cnd_footer(condition), use_cli_format = fields$use_cli_format,
      parent = plain_parent(fields$parent)
    )
  } else {
    list(message = trimws(conditionMessage(condition), "right"))
  }
  # reticulate has methods for the first two.
  not_data <- c("python.builtin.object", "python.builtin.BaseException", "condition")
  classes <- setdiff(class(condition), not_data)
  structure(
    c(Filter(Negate(is.null), said), list(call = text_of(conditionCall(condition)), frames = frames), own),
    class = unique(c(classes, kind, "condition"))
  )
}

not_fields <- c(
  "message", "call", "trace", "parent", "body", "footer", "use_cli_format", "rlang", "cppstack", "frames"
)

plain_parent <- function(condition) {
  frames <- if (inherits(condition$trace, "rlang_trace")) as_frames(condition$trace)
  if (rlang::is_condition(condition)) plain_condition(condition, frames)
}

text_of <- function(call) {
  # An error of the caller of the function.
  if (identical(call, quote(eval(call_on_worker, frame)))) call <- NULL
  text <- if (!is.null(call)) deparse1(call, collapse = "\n")
  # A call with its data instead of names.
  if (length(text) && nchar(text) > 1000) deparse1(call[1], collapse = "\n") else text
}

# Whether a value is data alone, which can be read from any machine.
is_data <- function(x, depth = 0) {
  if (depth > 10 || isS4(x)) {
    return(FALSE)
  }
  parts <- c(if (is.list(x)) unclass(x), attributes(x))
  is_basic <- typeof(x) %in% c(
    "NULL", "logical", "integer", "double", "complex", "character", "raw", "list"
  )
  is_basic && all(vapply(parts, is_data, logical(1), depth = depth + 1))
}

# What an R script has failed with, without long fields, for its note: the bytes of an RDS file, in
# hexadecimal.
condition_text <- function(condition, frames = NULL, most = 1e5) {
  plain <- plain_condition(condition, frames[setdiff(names(frames), "python")])
  for (name in setdiff(names(plain), "message")) {
    if (utils::object.size(plain[[name]]) > most / 4) plain[[name]] <- NULL
  }
  bytes <- serialize(plain, NULL, version = 2)
  if (length(bytes) <= most) paste(as.character(bytes), collapse = "")
}

# The frames of an rlang_trace, or of a list like one, as texts.
as_frames <- function(trace) {
  trace <- unclass(trace)
  rows <- seq_along(trace$call)
  # Errors of C++ code are raised by a call of stop() that nothing in R has made.
  if (length(rows) && grepl("^stop\\(`?<", label_of(trace$call[[length(rows)]]))) rows <- rows[-length(rows)]
  # What rlang::abort() has called.
  is_inner <- function(call) is.call(call) && identical(call[[1]], quote(signal_abort))
  inner <- vapply(trace$call[rows], is_inner, NA)
  if (any(inner)) rows <- rows[seq_len(which(inner)[1] - 1L)]
  parent <- trace$parent
  if (length(rows) > most_frames) {
    # An infinite recursion.
    rows <- c(utils::head(rows, most_frames / 2), utils::tail(rows, most_frames / 2))
    parent <- seq_along(trace$call)
    parent[rows] <- seq_along(rows) - 1L
  }
  scope <- trace$scope[rows]
  list(
    call = as.character(mapply(frame_text, trace$call[rows], trace$namespace[rows], scope)),
    parent = parent[rows], visible = trace$visible[rows], scope = ifelse(scope %in% "global", scope, NA)
  )
}

# The same without rlang.
calls_until <- function(raised) {
  calls <- as.list(sys.calls())[seq_len(raised)]
  none <- rep(NA_character_, raised)
  parent <- seq_len(raised) - 1L
  list(call = calls, parent = parent, visible = rep(TRUE, raised), namespace = none, scope = none)
}

frame_text <- function(call, namespace, scope) {
  is_named <- is.call(call) && is.call(call[[1]]) && as.character(call[[1]][[1]])[1] %in% c("::", ":::")
  text <- gsub("[[:space:]]+", " ", label_of(call))
  if (scope %in% c("::", ":::") && !is_named) paste0(namespace, scope, text) else text
}

label_of <- function(call) {
  if (has_rlang()) paste(rlang::as_label(call), collapse = " ") else deparse(call, 100, nlines = 1)[1]
}

# In an infinite recursion, the stack has no room for it.
has_rlang <- function() sys.nframe() < 300 && requireNamespace("rlang", quietly = TRUE)
