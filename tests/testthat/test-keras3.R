# R's keras3 and tfruns are not in Debian; where they are installed, they work with tfmuster.
skip_if_not_installed("keras3")
skip_without_python(tensorflow = TRUE)

training <- c(
  "model <- NULL",
  "with(made$scope(), {",
  "  model <- keras_model_sequential(input_shape = c(28, 28, 1)) |>",
  "    layer_rescaling(1 / 255) |> layer_conv_2d(4, 3, activation = 'relu') |> layer_flatten() |>",
  "    layer_dense(10)",
  "  model |> compile(",
  "    optimizer = 'adam', metrics = 'accuracy',",
  "    loss = loss_sparse_categorical_crossentropy(from_logits = TRUE)",
  "  )",
  "})",
  "digits <- synthetic(1, 320, 32)",
  "x <- reticulate::py_to_r(digits$x_train); dim(x) <- c(dim(x), 1)",
  "y <- as.integer(reticulate::py_to_r(digits$y_train))",
  "callback <- callback_lambda(on_epoch_end = function(epoch, logs) cat('R callback\\n'))",
  "history <- model |> fit(x, y, epochs = 2, batch_size = 64, verbose = 0, callbacks = list(callback))",
  "scores <- model |> evaluate(x, y, verbose = 0)",
  "used <- getS3method('fit', 'keras.src.models.model.Model')",
  "cat(class(history), environmentName(environment(used)), '\\n')",
  "cat('scores', names(scores), dim(predict(model, x[1:5, , , , drop = FALSE], verbose = 0)), '\\n')"
)

for (order in list(c("tfmuster", "keras3"), c("keras3", "tfmuster"))) {
  test_that(paste("a keras3 program trains on two workers, loaded in the order", toString(order)), {
    script <- withr::local_tempfile(fileext = ".R", lines = c(
      sprintf("library(%s)", order), "made <- strategy('multi_worker_mirrored')", training
    ))
    shown <- capture.output(launch(script, workers = 2, run_dir = file.path(withr::local_tempdir(), "run")))
    for (worker in 0:1) {
      name <- paste0("worker ", worker, " | ")
      expect_equal(sum(shown == paste0(name, "R callback")), 2)
      expect_true(paste0(name, "keras_training_history keras3") %in% shown)
      expect_true(paste0(name, "scores accuracy loss 5 10") %in% shown)
    }
  })
}

test_that("every strategy of one process takes a keras3 model", {
  for (name in c("default", "one_device", "mirrored", "central_storage")) {
    run <- run_r(c("library(keras3)", sprintf("made <- strategy('%s')", name), training))
    expect_match(run$output, "scores accuracy loss 5 10", all = FALSE, info = name)
  }
})

test_that("tfruns lists a run directory", {
  skip_if_not_installed("tfruns")
  folder <- withr::local_tempdir()
  train <- function() train_mnist("softmax", "synthetic", epochs = 2, steps_per_epoch = 5)$seconds
  launch(train, workers = 1, quiet = TRUE, run_dir = file.path(folder, "mine"))
  runs <- tfruns::ls_runs(runs_dir = folder)
  expect_equal(nrow(runs), 1)
  expect_true(runs$completed)
  expect_true(is.numeric(runs$metric_loss))
})
