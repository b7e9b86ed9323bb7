table_of <- function(rows, file) {
  write.csv(data.frame(a = seq_len(rows), b = 0.5, y = 2 * seq_len(rows)), file, row.names = FALSE)
}

test_that("rows of files become batches, each row once", {
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  table_of(30, file.path(folder, "1.csv"))
  table_of(15, file.path(folder, "2.csv"))
  data <- file_batches(file.path(folder, "*.csv"), csv_rows("y"), batch_size = 10, seed = 1)
  expect_equal(c(data$rows, data$steps), c(45, 5))
  seen <- reticulate::iterate(data$as_numpy_iterator(), function(batch) cbind(batch[[1]][, 1], batch[[2]]))
  seen <- do.call(rbind, seen)
  expect_equal(sort(seen[, 1]), sort(c(1:30, 1:15)))
  expect_equal(seen[, 2], 2 * seen[, 1])
})

test_that("a bad file is an error with its path and row", {
  skip_without_python(tensorflow = TRUE)
  file <- withr::local_tempfile(fileext = ".csv")
  error <- expect_kind(file_batches(file, csv_rows("y"), 10, seed = 1), "data")
  expect_equal(error[c("path", "reason")], list(path = file, reason = "missing-file"))
  writeLines(c("a,y", "1,2", "3"), file)
  error <- expect_kind(file_batches(file, csv_rows("y"), 10, seed = 1), "data")
  expect_equal(error[c("path", "row", "reason")], list(path = file, row = 2L, reason = "bad-line"))
})

test_that("arguments of another kind are refused in R's words", {
  expect_error(file_batches("a.csv", "csv", 10, 1), "`read` must be a reader", class = "tfmuster_error_data")
  expect_error(file_batches("a.csv", "csv", 1.5, 1), "`batch_size` must be", class = "tfmuster_error_data")
  expect_error(image_rows(28), "`size` must be two whole numbers", class = "tfmuster_error_data")
  expect_error(tfrecord_rows("x"), "`features` must be a named list", class = "tfmuster_error_data")
  expect_error(batches(1, 1, 10, "a"), "`seed` must be", class = "tfmuster_error_data")
})
