# Prepare TensorFlow and Keras as in a launched worker once TF_CONFIG names the task of this process. So a
# strategy of TensorFlow's own joins as strategy() does, and what keras3 runs when Keras is imported, which
# starts TensorFlow, waits for it.
join_from_r <- function() {
  # Each process of a job is prepared when it starts.
  if (nzchar(Sys.getenv("TFMUSTER_JOB")) || nzchar(Sys.getenv("TFMUSTER_WARM"))) {
    return(invisible())
  }
  clustered <- nzchar(Sys.getenv("TF_CONFIG"))
  # An error here would end whatever starts Python, also without a cluster.
  tryCatch(
    run_python("join_from_r", keras = Sys.getenv("TFMUSTER_KERAS_COMPAT") != "0"),
    error = function(e) {
      if (clustered) {
        warn_tfmuster(paste0("This process can't join the cluster of TF_CONFIG: ", conditionMessage(e)))
      }
    }
  )
  if (clustered) say_how_it_ends()
  invisible()
}

# Report from R how it ends, because Python's exit hooks never run inside R, and Python never sees an R error.
# The other workers can then name the cause, and do not treat an early exit as a failure.
say_how_it_ends <- function() {
  if (!is.null(the$ending)) {
    return(invisible())
  }
  the$ending <- new.env()
  reg.finalizer(the$ending, function(ending) try(run_python("report_exit"), silent = TRUE), onexit = TRUE)
  if (interactive() || !is.null(getOption("error"))) {
    return(invisible())
  }
  # R calls no handler and no option for an overflow of the C stack, and halts only without the option. So the
  # option waits for an error that nothing has caught, if R takes a global handler here.
  if (has_handlers()) {
    return(invisible(options(error = end_with_error)))
  }
  globalCallingHandlers(error = function(e) if (is.null(getOption("error"))) options(error = end_with_error))
}

# What R calls for an uncaught error. With this option set, R does not end by itself.
end_with_error <- function() {
  said <- last_words()
  frames <- tryCatch(frames_of(NULL, sys.nframe() - 1, said), error = function(e) NULL)
  tell_failure(said, frame_lines(frames), if (is_raised(said)) the$raised)
  quit(save = "no", status = exit_status(said))
}

# Whether some caller handles conditions. Then R refuses global handlers.
has_handlers <- function() {
  handles <- function(frame) identical(frame, base::tryCatch) || identical(frame, base::withCallingHandlers)
  any(vapply(lapply(seq_len(sys.nframe()), sys.function), handles, NA))
}

# The text of the error that ends R. For rlang's conditions, R omits the first line, the error itself.
# `last`: the latest rlang error. If it was caught and is not this error, its body differs.
last_words <- function(said = geterrmessage(), last = last_rlang_error()) {
  said <- trimws(sub("\nCalls: [^\n]*\n*$", "", cli::ansi_strip(said)))
  begin <- sub("\n.*", "", said)
  if (is.null(last) || !grepl(":\\s*$", begin)) {
    return(said)
  }
  # Join the lines: the text may be wrapped for a narrow console.
  error <- trimws(plain_text(rlang::cnd_header(last)))
  body <- trimws(substring(plain_text(conditionMessage(last)), nchar(error) + 1))
  if (!grepl(body, plain_text(said), fixed = TRUE)) {
    return(said)
  }
  # R shows the whole call, cut off after its first line; rlang shows the name of the function.
  raised_in <- rlang::format_error_call(conditionCall(last))
  place <- if (is.null(raised_in)) trimws(begin) else paste0("Error in ", cli::ansi_strip(raised_in), ":")
  paste0(place, " ", error, substring(said, nchar(begin) + 1))
}

last_rlang_error <- function() tryCatch(rlang::last_error(), error = function(e) NULL)

# The exit code of an R program after an error: 3 if the rendezvous failed, as for Python.
exit_status <- function(said) {
  if (identical(the$raised$kind, "rendezvous") && is_raised(said)) 3L else 1L
}

# Whether a text is that of the error of tfmuster that was raised last.
is_raised <- function(said) {
  !is.null(the$raised) && grepl(plain_text(the$raised$message), plain_text(said), fixed = TRUE)
}
