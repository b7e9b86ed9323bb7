# Show a job while launch() waits for it: each line of the workers, and their progress. A dynamic console
# shows a progress bar; other consoles show a line per epoch.

# Returns list(say, glance, end). The core calls the first two in R's thread. An interrupt must not jump out
# of them, because Python's frames are below; Python handles it right after them.
session_display <- function(draw = interactive() && cli::is_dynamic_tty()) {
  bar <- new.env()
  bar$epochs <- 0
  say <- function(line) suspendInterrupts(show_line(line, bar))
  glance <- function(progress) {
    suspendInterrupts({
      lines <- as.character(unlist(progress$epoch_lines))
      for (line in lines[seq_along(lines) > bar$epochs]) show_line(line, bar)
      bar$epochs <- length(lines)
      if (draw) draw_bar(bar, progress)
    })
    NULL
  }
  list(say = say, glance = glance, end = function() end_bar(bar))
}

show_line <- function(line, bar) {
  if (is.null(bar$id)) {
    cat(line, "\n", sep = "")
    utils::flush.console()
  } else {
    # Print above the bar, and keep the spaces.
    cli::cli_verbatim(line)
  }
  NULL
}

# One bar per epoch; before and after, only the state of the job.
draw_bar <- function(bar, progress) {
  total <- progress$steps %||% NA
  if (is.null(bar$id) || !identical(total, bar$total)) {
    end_bar(bar)
    bar$total <- total
    shown <- if (is.na(total)) "{cli::pb_spin}" else "{cli::pb_bar} {cli::pb_current}/{cli::pb_total}"
    bar$id <- cli::cli_progress_bar(
      format = paste(shown, "{cli::pb_extra$text}"), total = total, extra = list(text = ""), clear = TRUE,
      auto_terminate = FALSE, .auto_close = FALSE, .envir = bar
    )
  }
  cli::cli_progress_update(
    set = progress$step %||% 0, extra = list(text = progress$text_beside_bar), id = bar$id, force = TRUE,
    .envir = bar
  )
}

end_bar <- function(bar) {
  if (!is.null(bar$id)) cli::cli_progress_done(id = bar$id, .envir = bar)
  bar$id <- NULL
}
