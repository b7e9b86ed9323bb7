# R says itself how it ends, because Python's exit hooks never run inside R, and Python never sees an R error:
# so the other workers can name the cause, and do not take an early end for a failure.
say_how_it_ends <- function() {
  if (!is.null(the$ending)) {
    return(invisible())
  }
  the$ending <- new.env()
  reg.finalizer(the$ending, function(ending) try(run_python("joining.leave"), silent = TRUE), onexit = TRUE)
  if (!interactive()) {
    # Refused where handlers are on the stack, as in a test or a document that is being knitted.
    try(globalCallingHandlers(error = say_error), silent = TRUE)
  }
}

# Reached by errors that nothing catches.
say_error <- function(error) {
  try(run_python("joining.leave", paste("R error:", conditionMessage(error))), silent = TRUE)
}
