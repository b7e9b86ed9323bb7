# Coverage of R/ by the R tests, workers included; fails below 90% of the lines.
tests <- c(
  "testthat::test_dir(",
  "  'tests/testthat', package = 'tfmuster', reporter = 'summary', load_package = 'installed'",
  ")"
)
covered <- covr::package_coverage(type = "none", code = tests, quiet = FALSE)
print(covered)
share <- covr::percent_coverage(covered)
cat(sprintf("R: %.1f%% of the lines\n", share))
if (share < 90) quit(status = 1)
