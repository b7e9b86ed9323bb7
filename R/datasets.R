#' Digits to train on
#'
#' `mnist()` finds the MNIST digits, or downloads them once. `synthetic()` generates similar digits without a
#' download; an accuracy on them says nothing about MNIST.
#'
#' The arrays stay in Python, as bytes: 47 MB for MNIST, compared with 376 MB for R arrays of numbers. The R
#' object and its parts are references, so `model$fit(digits$x_train, digits$y_train)` copies nothing. To look
#' at the pixels, make an R array with `reticulate::py_to_r(digits$x_test)`.
#'
#' @param path An `.npz` file with `x_train`, `y_train`, `x_test`, and `y_test`, or a folder with the four IDX
#'   files. Default: the environment variable `TFMUSTER_MNIST`, else Keras's cache, else a download.
#' @param seed Seed of the digits. The same seed gives the same digits on every machine.
#' @param train,test Number of digits to train on and to test on.
#' @return A Python object of class `tfmuster.Digits`: `x_train` and `x_test` of shape (n, 28, 28),
#'   0 (paper) to 255 (ink); `y_train` and `y_test` of shape (n), 0 to 9; `name` and `source`. `dim()`
#'   returns the shape of `x_train`.
#' @section Errors: `tfmuster_error_data` with the fields `path` and `reason`.
#' @export
#' @examplesIf tfmuster_available()
#' digits <- synthetic(seed = 1, train = 200, test = 50)
#' digits
#' dim(digits)
#' # One digit, as a picture:
#' pixels <- reticulate::py_to_r(digits$x_test)[1, , ]
#' image(t(pixels[28:1, ]), col = grey.colors(256, 1, 0), axes = FALSE, asp = 1)
#' # A file with your own digits:
#' file <- tempfile(fileext = ".npz")
#' reticulate::import("numpy")$savez(
#'   file, x_train = digits$x_train, y_train = digits$y_train,
#'   x_test = digits$x_test, y_test = digits$y_test
#' )
#' mnist(file)
mnist <- function(path = NULL) {
  check_own(path = "name", kind = "data")
  run_python("mnist", as_path(path))
}

#' @rdname mnist
#' @export
synthetic <- function(seed = 0, train = 10000, test = 2000) {
  check_own(seed = "number", train = "positive", test = "positive", kind = "data")
  run_python("synthetic", seed = as_whole(seed), train = as_whole(train), test = as_whole(test))
}

#' @exportS3Method `$` tfmuster.Digits
`$.tfmuster.Digits` <- function(x, name) { # nolint: object_name_linter.
  # py_get_attr does not convert, so passing the images to a model does not copy them through R.
  arrays <- c("x_train", "y_train", "x_test", "y_test")
  if (name %in% arrays) reticulate::py_get_attr(x, name) else NextMethod()
}

#' @exportS3Method dim tfmuster.Digits
dim.tfmuster.Digits <- function(x) { # nolint: object_name_linter.
  as.integer(unlist(reticulate::py_to_r(reticulate::py_get_attr(x$x_train, "shape"))))
}

#' @exportS3Method print tfmuster.Digits
print.tfmuster.Digits <- function(x, ...) { # nolint: object_name_linter.
  cli::cat_line(cli::style_bold("Digits "), x$describe())
  invisible(x)
}
