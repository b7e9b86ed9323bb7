test_that("ggplot2 draws a panel for each metric and a curve for each set", {
  skip_if_not_installed("ggplot2")
  picture <- plot(a_history())
  expect_s3_class(picture, "ggplot")
  built <- ggplot2::ggplot_build(picture)
  expect_equal(nrow(built$layout$layout), 2)
  expect_length(unique(built$data[[1]]$colour), 2)
  file <- withr::local_tempfile(fileext = ".pdf")
  ggplot2::ggsave(file, picture, width = 5, height = 4)
  expect_gt(file.size(file), 1000)
})

test_that("base graphics draw it, too, and put back the layout", {
  file <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  before <- graphics::par("mfrow")
  expect_invisible(plot(a_history(), engine = "base"))
  expect_equal(graphics::par("mfrow"), before)
  grDevices::dev.off()
  expect_gt(file.size(file), 1000)
})

test_that("a result plots as its history, and only two engines exist", {
  skip_if_not_installed("ggplot2")
  result <- structure(list(history = a_history()), class = "tfmuster_training")
  expect_s3_class(plot(result), "ggplot")
  expect_error(plot(a_history(), engine = "lattice"), "must be one of")
})

test_that("what a Keras model's fit() returned in Python can be plotted", {
  skip_without_python(tensorflow = TRUE)
  skip_if_not_installed("ggplot2")
  digits <- synthetic(seed = 1, train = 64, test = 16)
  history <- mnist_model("softmax")$fit(digits$x_train, digits$y_train, epochs = 2L, verbose = 0L)
  expect_s3_class(plot(history), "ggplot")
  expect_equal(nrow(as.data.frame(history)), 4)
})
