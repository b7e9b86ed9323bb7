progress <- function(text, step = NULL, steps = NULL, epochs = list()) {
  list(text = text, epoch = NULL, step = step, steps = steps, epochs = epochs)
}

test_that("a console that can't draw gets the lines and the finished epochs, each once", {
  show <- session_display(draw = FALSE)
  shown <- capture.output({
    show$say("worker 0 | two  spaces {x}")
    show$glance(progress("training", epochs = list("epoch 1  loss 2")))
    show$glance(progress("training", epochs = list("epoch 1  loss 2", "epoch 2  loss 1")))
    show$end()
  })
  expect_equal(shown, c("worker 0 | two  spaces {x}", "epoch 1  loss 2", "epoch 2  loss 1"))
})

test_that("a console that can draw gets a bar of the epoch, and lines above it as they are", {
  withr::local_options(cli.dynamic = TRUE, cli.progress_show_after = 0, cli.ansi = FALSE)
  show <- session_display(draw = TRUE)
  shown <- paste(capture.output(type = "message", {
    show$glance(progress("waiting for worker 1"))
    show$glance(progress("training  epoch 1/2  step 3/10  loss 1.5  70 images/s", step = 3L, steps = 10L))
    show$say("worker 0 | two  spaces {x}")
    show$glance(progress("training  epoch 2/2  step 9/10  loss 0.5", 9L, 10L, list("epoch 1  loss 1.2")))
    show$end()
  }), collapse = "\n")
  expect_match(shown, "waiting for worker 1", fixed = TRUE)
  expect_match(shown, "3/10 epoch 1/2  loss 1.5  70 images/s", fixed = TRUE)
  expect_match(shown, "9/10 epoch 2/2  loss 0.5", fixed = TRUE)
  expect_match(shown, "worker 0 | two  spaces {x}", fixed = TRUE)
  expect_match(shown, "epoch 1  loss 1.2", fixed = TRUE)
})

test_that("interrupts while a job is shown never reach R in the middle of Python", {
  skip_without_python()
  skip_on_os("windows")
  code <- c(
    "invisible(tfmuster_available())",
    "session <- reticulate::import('tfmuster.r_session', convert = FALSE)",
    "reticulate::py_run_string('def flood(say):\n  while True: say(\"x\")')",
    "flood <- reticulate::import_main(convert = FALSE)$flood",
    "say <- session$uninterrupted(function(line) suspendInterrupts(for (i in 1:20) paste(line, i)))",
    "for (i in 1:20) {",
    "  delay <- sprintf('(sleep 0.0%d; kill -INT %d) >/dev/null 2>&1 &', sample(10:99, 1), Sys.getpid())",
    "  system(delay)",
    "  cat(tryCatch(flood(say), interrupt = function(i) 'interrupted'), '\\n')",
    "  reticulate::py_run_string('import json; json.dumps([1])')",
    "}"
  )
  done <- run_r(code, timeout = 60)
  expect_equal(done$status, 0L)
  expect_equal(sum(grepl("^interrupted", done$output)), 20)
})
