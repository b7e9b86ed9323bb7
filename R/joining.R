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
      try(run_python("r_bridge.leave_r_note", cli::ansi_strip(geterrmessage())), silent = TRUE)
      quit(save = "no", status = exit_status())
    })
  }
}

# The exit code of an R program that the latest error has ended: 3 if not everyone arrived, as from Python.
exit_status <- function() {
  plain <- function(text) gsub("[[:space:]]+", " ", cli::ansi_strip(text))
  # Of a condition with a body R's error message has that alone, wrapped to the width of a console.
  ours <- vapply(
    strsplit(as.character(unlist(the$raised[c("message", "found")])), "\n", fixed = TRUE),
    function(lines) grepl(plain(lines[[1]]), plain(geterrmessage()), fixed = TRUE), logical(1)
  )
  if (identical(the$raised$kind, "rendezvous") && any(ours)) 3L else 1L
}
