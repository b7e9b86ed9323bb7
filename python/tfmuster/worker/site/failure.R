# Note the error that ends the R of a worker, with its backtrace, in the file that its launcher reads. Returns
# the function that notes an error, from a calling handler with the number `frame`. startup.R sources this file
# after the first error that nothing has caught. It needs no packages: rlang adds the namespaces.
local({
  for (name in c("condition.R", "failure_note.R")) source(file.path(site, name), local = TRUE)
  last <- new.env()

  # When R ends: an error that only a part of the program has failed with is no longer the last one.
  note_last <- function(last) {
    # R cuts off long texts, and has none for rlang's errors.
    said <- geterrmessage()
    same <- grepl(substr(last$said, 1, 200), said, fixed = TRUE)
    if (last$by_rlang) same <- same || grepl("^[^\n]*: *(\n|$)", said)
    if (Sys.getpid() != last$pid || !same) {
      return()
    }
    write_note(
      last$error[1], c(last$error[-1], last$trace),
      # rlang has printed its own.
      unprinted = if (!last$by_rlang) last$trace,
      fix = last$fix, hints = last$hints, classes = last$classes, condition = last$condition, time = last$time
    )
  }

  function(condition, frame) {
    said <- conditionMessage(condition)
    # rlang prints its errors itself, and then raises one without a text.
    if (!nzchar(said)) {
      return()
    }
    frames <- frames_of(condition, raised_at(frame), said)
    if (is.null(last$pid)) reg.finalizer(last, function(last) try(note_last(last), silent = TRUE), onexit = TRUE)
    last$pid <- Sys.getpid()
    last$time <- as.numeric(Sys.time())
    last$said <- said
    last$by_rlang <- inherits(condition, "rlang_error")
    if (inherits(condition, "tfmuster_error")) {
      last$fix <- condition$fix
      last$hints <- condition$hints
    }
    last$error <- error_lines(condition, said)
    last$trace <- frame_lines(frames)
    last$classes <- class(condition)
    last$condition <- tryCatch(condition_text(condition, frames), error = function(e) NULL)
    # For the package, which leaves a note of its own where it has made a strategy.
    options(tfmuster.failed = as.list(last))
  }
})
