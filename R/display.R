# Show a job while launch() waits for it: each line of the workers, and their progress. A dynamic console
# shows a progress bar; other consoles show a line each ten seconds while workers start, a line per epoch, and
# a sign of life after a minute of silence.

# Returns list(say, glance, end). The core calls the first two in R's thread. An interrupt must not jump out
# of them, because Python's frames are below; Python handles it right after them.
session_display <- function(draw = draws_bars(), silent = 60, starting = 10) {
  bar <- new.env()
  bar$written <- bar$told <- Sys.time()
  say <- function(line) suspendInterrupts(show_line(line, bar))
  glance <- function(progress) {
    suspendInterrupts({
      for (line in unlist(progress$epoch_lines)) show_line(line, bar)
      if (draw) {
        draw_bar(bar, progress)
      } else if (length(progress$start)) {
        if (Sys.time() >= bar$told + starting) {
          bar$told <- Sys.time()
          show_line(progress$start, bar)
        }
      } else if (length(progress$sign_of_life) && Sys.time() >= bar$written + silent) {
        show_line(progress$sign_of_life, bar)
      }
    })
    NULL
  }
  list(say = say, glance = glance, end = function() end_bar(bar))
}

# The output of a chunk, in RStudio's notebooks and of knitr, keeps everything that a bar overwrites.
draws_bars <- function() {
  in_chunk <- isTRUE(getOption("rstudio.notebook.executing")) || isTRUE(getOption("knitr.in.progress"))
  rlang::is_interactive() && cli::is_dynamic_tty() && !in_chunk
}

show_line <- function(line, bar) {
  bar$written <- Sys.time()
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
