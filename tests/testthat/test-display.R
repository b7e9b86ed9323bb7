# As the core tells it: of the text, the bar needs only what it does not show itself.
progress <- function(text, step = NULL, steps = NULL, epoch_lines = list(), text_beside_bar = text) {
  list(
    phase = sub(" .*", "", text), text = text, text_beside_bar = text_beside_bar, epoch = NULL, epochs = NULL,
    step = step, steps = steps, epoch_lines = epoch_lines
  )
}

test_that("a console that can't draw gets the lines and the finished epochs, each once", {
  show <- session_display(draw = FALSE)
  shown <- capture.output({
    show$say("worker 0 | two  spaces {x}")
    show$glance(progress("training", epoch_lines = list("epoch 1  loss 2")))
    show$glance(progress("training", epoch_lines = list("epoch 2  loss 1")))
    show$end()
  })
  expect_equal(shown, c("worker 0 | two  spaces {x}", "epoch 1  loss 2", "epoch 2  loss 1"))
})

test_that("a console that can draw gets a bar of the epoch, and lines above it as they are", {
  withr::local_options(cli.dynamic = TRUE, cli.progress_show_after = 0, cli.ansi = FALSE)
  show <- session_display(draw = TRUE)
  shown <- paste(capture.output(type = "message", {
    show$glance(progress("waiting for worker 1"))
    show$glance(progress(
      "training  epoch 1/2  step 3/10  loss 1.5  70 images/s",
      step = 3L, steps = 10L,
      text_beside_bar = "epoch 1/2  loss 1.5  70 images/s"
    ))
    show$say("worker 0 | two  spaces {x}")
    show$glance(progress(
      "training  epoch 2/2  step 9/10  loss 0.5", 9L, 10L, list("epoch 1  loss 1.2"), "epoch 2/2  loss 0.5"
    ))
    show$end()
  }), collapse = "\n")
  expect_match(shown, "waiting for worker 1", fixed = TRUE)
  expect_match(shown, "3/10 epoch 1/2  loss 1.5  70 images/s", fixed = TRUE)
  expect_match(shown, "9/10 epoch 2/2  loss 0.5", fixed = TRUE)
  expect_match(shown, "worker 0 | two  spaces {x}", fixed = TRUE)
  expect_match(shown, "epoch 1  loss 1.2", fixed = TRUE)
})

test_that("only a dynamic console that is no notebook gets a bar", {
  withr::local_options(rlang_interactive = TRUE, cli.dynamic = TRUE, rstudio.notebook.executing = NULL)
  withr::local_options(knitr.in.progress = NULL)
  expect_true(draws_bars())
  expect_false(withr::with_options(list(rstudio.notebook.executing = TRUE), draws_bars()))
  expect_false(withr::with_options(list(knitr.in.progress = TRUE), draws_bars()))
  expect_false(withr::with_options(list(cli.dynamic = FALSE), draws_bars()))
  expect_false(withr::with_options(list(rlang_interactive = FALSE), draws_bars()))
})

test_that("a console that can't draw and was silent gets a sign of life", {
  running <- c(progress("training"), sign_of_life = "tfmuster: running for 1 min 0 s; worker 0: training")
  shown <- function(silent) {
    show <- session_display(draw = FALSE, silent = silent)
    capture.output({
      show$glance(running)
      show$glance(progress(""))
      show$end()
    })
  }
  expect_equal(shown(60), character())
  expect_equal(shown(0), running$sign_of_life)
})

test_that("a console that can't draw is told what workers do that start", {
  start <- "tfmuster: starting for 10 s; worker 0: tracing"
  shown <- function(starting) {
    show <- session_display(draw = FALSE, silent = 0, starting = starting)
    capture.output({
      show$say("worker 0 | line")
      show$glance(c(progress("tracing"), start = start, sign_of_life = "running"))
      show$end()
    })
  }
  expect_equal(shown(10), "worker 0 | line")
  expect_equal(shown(0), c("worker 0 | line", start))
})

test_that("the workers of a function tell what they do while they start", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  # A forked worker has imported TensorFlow already.
  withr::local_envvar(fresh)
  stock <- session_display
  replace <- function(display) utils::assignInNamespace("session_display", display, "tfmuster")
  withr::defer(replace(stock))
  replace(function() stock(draw = FALSE, starting = 0))
  imports <- function() {
    reticulate::import("tensorflow")
    1
  }
  shown <- capture.output(values <- launch(imports, workers = 1, run_dir = tempfile("run")))
  expect_equal(unlist(values), c("worker 0" = 1))
  expect_match(shown, "^tfmuster: starting for [0-9]+ s; worker 0: starting$", all = FALSE)
  expect_match(shown, "^tfmuster: starting for [0-9]+ s; worker 0: importing TensorFlow$", all = FALSE)
})

test_that("an interrupt does not break a session in which Python and R call each other", {
  skip_without_python()
  skip_on_os("windows")
  code <- c(
    "invisible(tfmuster_available())",
    "reticulate::py_run_string('import os, signal')",
    "reticulate::py_run_string('def hit(): os.kill(os.getpid(), signal.SIGINT)')",
    # The first is hit in Python, the second in R, the third in Python that R calls, called by Python.
    "reticulate::py_run_string('def python():\n  hit()\n  while True: len(\"x\")')",
    "reticulate::py_run_string('def flood(r):\n  while True: r()')",
    "py <- reticulate::import_main(convert = FALSE)",
    "in_r <- function() { tools::pskill(Sys.getpid(), 2L); for (i in 1:20) paste('line', i) }",
    "nested <- function() { py$hit(); for (i in 1:20) paste('line', i) }",
    "for (what in list(py$python, function() py$flood(in_r), function() py$flood(nested))) {",
    "  caught <- 0",
    "  for (i in 1:500) {",
    "    caught <- caught + identical(tryCatch(what(), interrupt = function(i) 'interrupt'), 'interrupt')",
    "    stopifnot(reticulate::py_eval('sum(range(10))') == 45)",
    "  }",
    "  cat('interrupted', caught, '\n')",
    "}"
  )
  # A forked program gets its own signals a moment later, by way of the process that stands for it.
  done <- run_r(code, env = fresh, timeout = 120)
  expect_equal(done$status, 0L)
  expect_equal(sum(grepl("^interrupted 500", done$output)), 3)
})
