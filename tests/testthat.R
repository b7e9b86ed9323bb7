# CRAN checks packages also without those that they suggest.
if (requireNamespace("testthat", quietly = TRUE)) {
  library(testthat)
  library(tfmuster)
  test_check("tfmuster")
}
