test_that("what the core says of options is said of the arguments of launch()", {
  said <- c(
    "Name them: -H node1:2,node2:2, or ask." = 'Name them: hosts = "node1:2,node2:2", or ask.',
    "Leave --copy out." = "Leave copy = TRUE out.",
    "Choose another place with --run-dir." = "Choose another place with run_dir.",
    "--backend-option=--nodelist=node1,node2 asks." = 'backend_options = "--nodelist=node1,node2" asks.',
    "under `tfmuster launch --ps 1 --workers 2`" =
      "under `launch(workers = 2, control = launch_control(ps = 1))`",
    "tfmuster launch --max-restarts 3 ..., or" = "launch(..., max_restarts = 3), or",
    "by `tfmuster launch -n 2 SCRIPT`, or" = "by `launch(script, workers = 2)`, or",
    "`tfmuster launch --max-restarts` starts all" = "`launch(max_restarts = ...)` starts all",
    "tfmuster launch --evaluator ...; elsewhere" =
      "launch(..., control = launch_control(evaluator = TRUE)); elsewhere",
    "`tfmuster launch -n 2 --backend slurm --backend-option=--nodes=2 ...`" =
      '`launch(..., workers = 2, on = on_slurm("--nodes=2"))`',
    "`tfmuster launch -H a:1 --copy SCRIPT`" = '`launch(script, on = on_ssh(hosts = "a:1", copy = TRUE))`',
    "or let `tfmuster launch --backend lsf` do it." = "or let `launch(on = on_lsf())` do it.",
    "it is Grid Engine's (--backend sge)" = "it is Grid Engine's (on = on_sge())",
    "fewer workers (-n 2), without wait=False" = "fewer workers (workers = 2), without wait = FALSE"
  )
  for (text in names(said)) expect_equal(in_r(text), said[[text]])
  # Options of other programs stay.
  expect_equal(in_r("srun --distribution=block --nodelist=a"), "srun --distribution=block --nodelist=a")
  expect_equal(in_r("(`ulimit -n`), or fewer (-n 2)"), "(`ulimit -n`), or fewer (workers = 2)")
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
  error <- expect_kind(launch("train.R", hosts = "here", remote_python = "-python", quiet = TRUE), "launch")
  expect_match(conditionMessage(error), "Give it with remote_python, such as", fixed = TRUE)
})

test_that("what somebody has written is quoted as it is", {
  text <- "ValueError: True needs --copy; {\"a\": True}"
  for (kind in c("worker", "cluster")) {
    error <- expect_kind(abort_tfmuster(list(kind = kind, message = text, found = text)), kind)
    expect_equal(substring(strsplit(conditionMessage(error), "\n")[[1]], c(1, 3)), c(text, text))
  }
  error <- list(kind = "data", message = "True", found = "/data/True.npz")
  error <- expect_kind(abort_tfmuster(error), "data")
  expect_match(conditionMessage(error), "TRUE\n. /data/True.npz")
})
