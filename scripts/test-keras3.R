# Run, in tests/, the tests with R's keras3 and the packages around it. A skipped test is an error here.
results <- testthat::test_dir(
  "testthat",
  filter = "keras|tfruns|r-model|distribute|masking|run$", package = "tfmuster", load_package = "installed",
  reporter = "check", stop_on_failure = TRUE
)
skipped <- Filter(function(result) any(vapply(result$results, inherits, TRUE, "expectation_skip")), results)
if (length(skipped)) {
  message("*** Skipped: ", toString(unique(vapply(skipped, function(result) result$file, ""))))
  quit(status = 1)
}
