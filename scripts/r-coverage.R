# Coverage of R/ by the R tests, workers included; fails below 90% of the lines, or if a test fails.
outcome <- tempfile(fileext = ".rds")
tests <- c(
  "tested <- testthat::test_dir(",
  "  'tests/testthat', package = 'tfmuster', reporter = 'summary', load_package = 'installed',",
  "  stop_on_failure = FALSE",
  ")",
  # A worker that is ended may have been writing what it has run: half a file keeps covr from reading any.
  "lib <- dirname(system.file(package = 'tfmuster'))",
  "for (path in list.files(lib, '^covr_trace_', full.names = TRUE)) {",
  "  if (inherits(try(readRDS(path), silent = TRUE), 'try-error')) unlink(path)",
  "}",
  sprintf("saveRDS(as.data.frame(tested)[c('file', 'test', 'failed', 'error')], %s)", deparse(outcome))
)
covered <- covr::package_coverage(type = "none", code = tests, quiet = FALSE)
print(covered)
share <- covr::percent_coverage(covered)
cat(sprintf("R: %.1f%% of the lines\n", share))
tested <- readRDS(outcome)
failed <- tested[tested$failed > 0 | tested$error, ]
if (nrow(failed)) print(failed, row.names = FALSE)
if (share < 90 || nrow(failed)) quit(status = 1)
