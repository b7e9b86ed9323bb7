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

# The legends of a picture, by what they show.
legends_of <- function(picture) {
  tables <- ggplot2::ggplotGrob(picture)
  boxes <- tables$grobs[grepl("guide-box", tables$layout$name)]
  unlist(lapply(boxes, function(box) sum(grepl("guides", box$layout$name))))
}

test_that("one legend says what color, shape and line mean", {
  skip_if_not_installed("ggplot2")
  withr::local_pdf(NULL)
  expect_equal(sum(legends_of(plot(a_history()))), 1)
  rows <- rbind(cbind(a_history(), run = "first"), cbind(a_history(), run = "second"))
  colours <- c(first = "red", second = "blue")
  expect_equal(sum(legends_of(gg_curves(rows, "run", colours))), 2)
  expect_equal(sum(legends_of(gg_curves(rows[rows$data == "training", ], "run", colours))), 1)
  # Base graphics: the legend has the lines that are drawn.
  shown <- base_legend(a_history(), "data", curve_colours)
  expect_equal(shown[[1]], c("training", "validation"))
  expect_equal(unname(shown$lty), c("solid", "dashed"))
  expect_equal(unname(shown$pch), c(16, 17))
  shown <- base_legend(rows, "run", colours)
  expect_equal(shown[[1]], c("first", "second", "training", "validation"))
  expect_equal(unname(shown$lty), c("solid", "solid", "solid", "dashed"))
  expect_length(base_legend(rows[rows$data == "training", ], "run", colours)[[1]], 2)
})

test_that("base graphics draw it, too, and put back the layout", {
  file <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  graphics::plot.new()
  before <- graphics::par(c("mfrow", "oma", "mar", "fig"))
  grDevices::dev.control("enable")
  expect_invisible(plot(a_history(), engine = "base"))
  calls <- vapply(grDevices::recordPlot()[[1]], function(call) call[[2]][[1]]$name %||% "", "")
  # Only a legend draws segments: there is one for both panels.
  expect_equal(sum(calls == "C_segments"), 1)
  expect_equal(sum(calls == "C_title"), 2)
  expect_equal(graphics::par(c("mfrow", "oma", "mar", "fig")), before)
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

test_that("a run is plotted, and several are compared by colour", {
  skip_without_python(tensorflow = TRUE)
  skip_if_not_installed("ggplot2")
  folder <- withr::local_tempdir()
  for (name in c("first", "second", "third")) a_run(folder, name, c(3, 2, NaN))
  runs <- run_list(folder = folder)
  expect_length(runs, 3)
  one <- plot(runs[[1]])
  built <- ggplot2::ggplot_build(one)
  expect_setequal(unique(built$data[[1]]$colour), curve_colours)
  expect_setequal(unique(built$data[[1]]$linetype), curve_lines)
  both <- ggplot2::ggplot_build(plot(run_list("first", "third", folder = folder)))
  expect_length(unique(both$data[[1]]$colour), 2)
  expect_false("#000000" %in% both$data[[1]]$colour)
  # At the size of RStudio's pane, in inches.
  file <- withr::local_tempfile(fileext = ".png")
  ggplot2::ggsave(file, plot(runs), width = 5, height = 3.6, dpi = 100)
  expect_gt(file.size(file), 1000)
  pdf <- withr::local_tempfile(fileext = ".pdf")
  withr::with_pdf(pdf, plot(runs, engine = "base"))
  expect_gt(file.size(pdf), 1000)
})

test_that("where there is nothing to draw, the reason is said", {
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  nothing <- function(expr, found) {
    error <- expect_kind(expr, "data")
    expect_equal(error[c("reason", "found")], list(reason = "empty", found = found))
    error$fix
  }
  nothing(plot(run_list(folder = folder)), "there are no runs")
  run <- run_open(a_run(folder, "empty", numeric()))
  fix <- nothing(plot(run), "this run is done, and trained nothing")
  expect_no_match(fix, "Wait")
  expect_equal(nothing(plot(run_list(folder = folder)), "this run is done, and trained nothing"), fix)
  a_run(folder, "other", numeric())
  nothing(plot(run_list(folder = folder)), "2 runs, none with a finished epoch")
  writeLines('{"state": "running", "tasks": {}}', file.path(folder, "empty", "status.json"))
  fix <- nothing(plot(run), "this run is running, and no epoch has ended")
  expect_match(fix, "Wait until the first epoch")
  nothing(plot(as_history(list())), "a history without an epoch")
})

test_that("a single epoch is drawn as points, without a word of ggplot2", {
  skip_if_not_installed("ggplot2")
  one <- as_history(list(loss = 2, accuracy = 0.1, val_loss = 3, val_accuracy = 0.2))
  file <- withr::local_tempfile(fileext = ".png")
  expect_no_message(ggplot2::ggsave(file, plot(one), width = 5, height = 3.6, dpi = 50))
  built <- ggplot2::ggplot_build(plot(one))
  expect_equal(nrow(built$data[[2]]), 4)
  mixed <- rbind(a_history(), data.frame(epoch = 1, metric = "lr", value = 0.1, data = "training"))
  expect_no_message(ggplot2::ggsave(file, plot(mixed), width = 5, height = 3.6, dpi = 50))
  expect_equal(nrow(ggplot2::ggplot_build(plot(mixed))$data[[1]]), 12)
})

test_that("the values of a function's run are plotted as its history", {
  skip_without_python(tensorflow = TRUE)
  skip_if_not_installed("ggplot2")
  run <- run_open(a_run(withr::local_tempdir(), "mine", c(3, 2, 1)))
  values <- structure(list("worker 0" = 1), run = run, class = "tfmuster_values")
  expect_equal(plot(values)$data, plot(run)$data)
})
