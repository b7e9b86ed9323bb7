test_that("the core names settings of launch() as R has them, and as data", {
  skip_without_python()
  at <- function(...) launch("train.R", ..., quiet = TRUE)
  error <- expect_kind(at(workers = 5, on = on_ssh("node1:2")), "launch")
  expect_equal(
    error$fix,
    'Give the hosts more slots (on = on_ssh("node1:2,node2:2")), or start fewer workers (workers = 2).'
  )
  expect_equal(
    error$hints, list(list(option = "hosts", value = "node1:2,node2:2"), list(option = "workers", value = 2L))
  )
  error <- expect_kind(at(on = on_sge("-pe a", "-pe b")), "launch")
  expect_match(error$fix, 'on = on_sge("-pe NAME")', fixed = TRUE)
  error <- expect_kind(strategy("multi_worker_mirrored"), "strategy")
  expect_match(error$fix, "`launch(script, workers = 2)`", fixed = TRUE)
  expect_match(expect_kind(strategy("mirored"), "strategy")$fix, 'Did you mean "mirrored"?', fixed = TRUE)
})

test_that("no message has words of Python or of the command line", {
  skip_without_python(tensorflow = TRUE)
  run <- run_r(c(
    sprintf("source(%s)", deparse1(normalizePath("mistakes.R"))),
    "Sys.unsetenv('TF_CONFIG')",
    "dir.create(folder <- tempfile('mistakes'))", "setwd(folder)",
    "for (file in c('train.R', 'train.csv')) writeLines('1', file)",
    "run <- attr(launch(function() 1, workers = 1, run_dir = 'run', quiet = TRUE), 'run')",
    "keras <- reticulate::import('keras')",
    "model <- keras$Sequential(list(keras$Input(shape = reticulate::tuple(2L)), keras$layers$Dense(3L)))",
    "loss <- keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE)",
    "compile(model, optimizer = 'adam', loss = loss)",
    "for (mistake in mistakes) {",
    "  said <- texts_of(mistake, environment())",
    "  cat('MISTAKE', deparse1(mistake), '\n', if (is.null(said)) 'NO ERROR' else said, '\n', sep = ' ')",
    "  if (!is.null(said) && is_not_r(said)) cat('NOT R', deparse1(mistake), said, '\n')",
    "}",
    "cat('CHECKED', length(mistakes), '\n')"
  ))
  expect_match(run$output, "^CHECKED", all = FALSE)
  expect_equal(run$output[grepl("^NOT R", run$output)], character())
  expect_equal(run$output[grepl("NO ERROR", run$output)], character())
})

test_that("the last words of R have the error, however it was raised", {
  last <- function(..., call = NULL) tryCatch(cli::cli_abort(..., call = call), error = identity)
  long <- strrep("long ", 30)
  of_parts <- last(c("No {.val data}.", i = long, x = "None."))
  said <- paste0("Error in f(2) : \n", sub("^[^\n]*\n", "", conditionMessage(of_parts)), "\nCalls: f\n")
  expect_match(last_words(said, of_parts), "^Error in f[(]2[)] : No \"data\".\n. long.*\n. None.$")
  in_call <- last(c("No data.", x = "None."), call = quote(train_mnist("cnn", dataset = "nowhere")))
  said_of_call <- sub("^[^\n]*\n", "Error in train_mnist(\"cnn\",  : \n", conditionMessage(in_call))
  expect_match(last_words(said_of_call, in_call), "^Error in `train_mnist[(][)]`: No data.\n. None.$")
  # R says nothing of this one.
  expect_equal(last_words("Error: \n", last("Nothing.")), "Error: Nothing.")
  # A header that is written for a narrow console.
  expect_equal(last_words("Error: \n", last(long)), paste("Error:", trimws(long)))
  # An earlier one, and none.
  expect_equal(last_words("Error in g() : \n  too bad\n", of_parts), "Error in g() : \n  too bad")
  expect_equal(last_words("Error: too bad\n", of_parts), "Error: too bad")
  expect_equal(last_words("Error in g() : \n  too bad\n", NULL), "Error in g() : \n  too bad")
})

test_that("an error of the core speaks R", {
  skip_without_python()
  error <- expect_kind(launch("train.R", on = on_ssh("here", remote_python = "-python")), "launch")
  expect_match(conditionMessage(error), "Give it with remote_python, such as", fixed = TRUE)
})

test_that("what somebody has written is quoted as it is", {
  text <- "ValueError: True needs --copy; {\"a\": True}"
  for (kind in c("worker", "cluster", "data")) {
    error <- expect_kind(abort_tfmuster(list(kind = kind, message = text, found = text)), kind)
    expect_equal(substring(strsplit(conditionMessage(error), "\n")[[1]], c(1, 3)), c(text, text))
  }
})
