test_that("the doctor's report prints what to paste into an issue", {
  skip_without_python(tensorflow = TRUE)
  report <- tfmuster_doctor()
  output <- capture.output(print(report))
  expect_match(output, as.character(getRversion()), all = FALSE, fixed = TRUE)
  expect_match(output, as.character(utils::packageVersion("tfmuster")), all = FALSE, fixed = TRUE)
  expect_match(output, "tensorflow:", all = FALSE, fixed = TRUE)
  expect_match(paste(output, collapse = " "), "listens on 0.0.0.0", fixed = TRUE)
})
