test_that("digits stay in Python and tell their size", {
  skip_without_python(tensorflow = TRUE)
  digits <- synthetic(seed = 1, train = 60, test = 20)
  expect_snapshot(print(digits))
  expect_equal(dim(digits), c(60, 28, 28))
  expect_s3_class(digits$x_train, "numpy.ndarray")
  expect_equal(as.character(reticulate::py_get_attr(digits$x_train, "dtype")), "uint8")
  pixels <- reticulate::py_to_r(digits$x_test)
  expect_equal(dim(pixels), c(20, 28, 28))
  expect_true(min(pixels) >= 0 && max(pixels) <= 255)
  expect_type(digits$name, "character")
})

test_that("a path without digits is an error that says where to look", {
  skip_without_python(tensorflow = TRUE)
  error <- expect_kind(mnist("/no/such/folder"), "data")
  expect_equal(error$path, "/no/such/folder")
  expect_snapshot(mnist("/no/such/{folder}"), error = TRUE)
})

test_that("digits are read from a file", {
  skip_without_python(tensorflow = TRUE)
  np <- reticulate::import("numpy")
  file <- withr::local_tempfile(fileext = ".npz")
  digits <- synthetic(seed = 1, train = 60, test = 20)
  np$savez(
    file,
    x_train = digits$x_train, y_train = digits$y_train, x_test = digits$x_test, y_test = digits$y_test
  )
  expect_equal(reticulate::py_to_r(mnist(file)$y_test), reticulate::py_to_r(digits$y_test))
})
