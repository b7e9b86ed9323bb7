test_that("the doctor's report prints what to paste into an issue", {
  skip_without_python(tensorflow = TRUE)
  report <- tfmuster_doctor()
  output <- capture.output(print(report))
  expect_match(output, as.character(getRversion()), all = FALSE, fixed = TRUE)
  expect_match(output, as.character(utils::packageVersion("tfmuster")), all = FALSE, fixed = TRUE)
  expect_match(output, "tensorflow:", all = FALSE, fixed = TRUE)
  expect_true(all(c("local", "ssh", "spark", "slurm", "mpi", "kubernetes") %in% names(report$engines)))
  expect_match(output, "  local:         yes", all = FALSE, fixed = TRUE)
  expect_match(paste(output, collapse = " "), "listens on 0.0.0.0", fixed = TRUE)
})

test_that("the doctor also tells which Python was chosen, and the devices", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  report <- tfmuster_doctor()
  expect_true(report$python$executable %in% report$python$searched)
  expect_match(unlist(report$devices), "CPU", all = FALSE)
})

test_that("without a Python that can be used the doctor says why", {
  run <- run_r(
    "tfmuster_doctor()",
    env = c(RETICULATE_PYTHON = "/no/such/python", TF_CONFIG = NA)
  )
  expect_match(run$output, "problem:", all = FALSE)
  expect_match(run$output, "install_tfmuster", all = FALSE)
  expect_equal(run$status, 0)
})

test_that("two R workers train together here", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  output <- capture.output(ready <- tfmuster_test())
  expect_true(ready)
  # What it does while it does it.
  expect_equal(output[1], "tfmuster: starting 2 workers on this machine")
  expect_match(output[2], "the workers meet each other and start TensorFlow")
  expect_match(output, "You are ready: 2 workers have trained together", all = FALSE)
})

test_that("the doctor says what to fix", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  output <- capture.output(ready <- tfmuster_test(timeout = 0.2))
  expect_false(ready)
  expect_match(output, "Not ready yet", all = FALSE)
  expect_match(output, "not done after 0 s", all = FALSE)
})
