# R says itself how it ends, because Python's exit hooks never run inside R, and Python never sees an R error:
# so the other workers can name the cause, and do not take an early end for a failure.
say_how_it_ends <- function() {
  if (!is.null(the$ending)) {
    return(invisible())
  }
  the$ending <- new.env()
  reg.finalizer(the$ending, function(ending) try(run_python("joining.leave"), silent = TRUE), onexit = TRUE)
  # Called for errors that nothing catches; with this option set, R does not end by itself any more.
  if (!interactive() && is.null(getOption("error"))) {
    options(error = function() {
      try(run_python("joining.leave", trimws(geterrmessage())), silent = TRUE)
      quit(save = "no", status = 1)
    })
  }
}
