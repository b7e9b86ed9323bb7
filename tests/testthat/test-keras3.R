# R's keras3 is not in Debian; where it is installed, it works with tfmuster.
skip_if_not_installed("keras3")
skip_if_fast()
skip_without_python(tensorflow = TRUE)

building <- c(
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
  "callback <- callback_lambda(on_epoch_end = function(epoch, logs) cat('R callback\\n'))"
)
training <- c(
  building,
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
    run_dir <- file.path(withr::local_tempdir(), "run")
    control <- launch_control(all_output = TRUE)
    shown <- capture.output(launch(script, workers = 2, run_dir = run_dir, control = control))
    for (worker in 0:1) {
      name <- paste0("worker ", worker, " | ")
      expect_equal(sum(shown == paste0(name, "R callback")), 2)
      expect_true(paste0(name, "keras_training_history keras3") %in% shown)
      expect_true(paste0(name, "scores accuracy loss 5 10") %in% shown)
    }
  })
}

# The document that tfmuster began with: TF_CONFIG, TensorFlow's own strategy, and a terminal for each worker.
for (order in list(c("tfmuster", "tensorflow", "keras3"), c("tensorflow", "keras3", "tfmuster"))) {
  test_that(paste("keras3 trains in two terminals, loaded in the order", toString(order)), {
    shown <- in_two_terminals(c(
      sprintf("library(%s)", order), "%s", "made <- tf$distribute$MultiWorkerMirroredStrategy()", training,
      "metrics <- format(unlist(history$metrics), digits = 6)",
      "cat('numbers', made$num_replicas_in_sync, metrics, '\\n')"
    ))
    expect_trained_together(shown)
  })
}

test_that("in two terminals, a strategy after library(keras3) has started TensorFlow is refused", {
  shown <- in_two_terminals(c(
    "library(tfmuster)", "%s", "tf <- reticulate::import('tensorflow')", "library(keras3)",
    "made <- tf$distribute$MultiWorkerMirroredStrategy()"
  ))
  for (lines in shown) {
    expect_match(lines, "it was started by library(keras3)", all = FALSE, fixed = TRUE)
    expect_match(lines, "and before library(keras3)", all = FALSE, fixed = TRUE)
  }
})

for (order in list(c("tfmuster", "keras3"), c("keras3", "tfmuster"))) {
  test_that(paste("keras3's functions are not masked, loaded in the order", toString(order)), {
    # run_r() attaches tfmuster first.
    seen <- run_r(c(
      "detach('package:tfmuster')", sprintf("library(%s)", order),
      "of_keras3 <- function(name) identical(get(name), getExportedValue('keras3', name))",
      "names <- c('evaluate', 'callback_tensorboard', 'fit', 'compile')",
      "cat('keras3', vapply(names, of_keras3, TRUE), '\\n')"
    ))
    expect_true("keras3 TRUE TRUE TRUE TRUE " %in% seen$output, info = toString(seen$output))
  })
}

test_that("every strategy of one process takes a keras3 model", {
  for (name in c("default", "one_device", "mirrored", "central_storage")) {
    run <- run_r(c("library(keras3)", sprintf("made <- strategy('%s')", name), training))
    expect_match(run$output, "scores accuracy loss 5 10", all = FALSE, info = name)
  }
})

test_that("a keras3 model trains with parameter servers, by ps_fit()", {
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "library(keras3)", "library(tfmuster)", "made <- strategy('parameter_server')", building,
    "refused <- tryCatch(model |> fit(x, y, epochs = 1, verbose = 0), error = conditionMessage)",
    "cat('refused', grepl('ps_fit', refused), '\\n')",
    "tf <- reticulate::import('tensorflow')",
    "batches <- function(context) {",
    "  rows <- reticulate::tuple(tf$constant(x), tf$constant(y))",
    "  data <- tf$data$Dataset$from_tensor_slices(rows)",
    "  data$shard(context$num_input_pipelines, context$input_pipeline_id)$batch(32L)",
    "}",
    "trained <- ps_fit(model, batches, 2, steps_per_epoch = 5, callbacks = list(callback), verbose = 0)",
    "cat('metrics', names(trained$history)[1:2], '\\n')",
    "cat('scores', names(model |> evaluate(x, y, verbose = 0)), '\\n')"
  ))
  folder <- file.path(withr::local_tempdir(), "run")
  control <- launch_control(ps = 1, all_output = TRUE)
  shown <- capture.output(launch(script, workers = 2, control = control, run_dir = folder))
  expect_true("worker 0 | refused TRUE" %in% shown)
  expect_equal(sum(shown == "worker 0 | R callback"), 2)
  expect_true("worker 0 | metrics accuracy loss" %in% shown)
  expect_true("worker 0 | scores accuracy loss" %in% shown)
})

test_that("a model with R code of keras3 has one process's numbers, and the chief alone saves it", {
  folder <- withr::local_tempdir()
  program <- withr::local_tempfile(fileext = ".R", lines = c(
    "library(keras3)",
    "tf <- tensorflow::tf",
    "several <- Sys.getenv('TFMUSTER_IS_CHIEF') != ''",
    "made <- if (several) tf$distribute$MultiWorkerMirroredStrategy() else tf$distribute$get_strategy()",
    "Total <- Metric('Total',",
    "  initialize = function(...) {",
    "    super$initialize(...)",
    "    self$total <- self$add_variable(shape = shape(), initializer = 'zeros', name = 'total')",
    "  },",
    "  update_state = function(y_true, y_pred, sample_weight = NULL) {",
    "    self$total$assign_add(op_sum(op_abs(y_true - y_pred)))",
    "  },",
    "  result = function() self$total,",
    "  reset_state = function() self$total$assign(0)",
    ")",
    "Own <- Model('Own', train_step = function(data) {",
    "  with(tf$GradientTape() %as% tape, {",
    "    y_pred <- self(data[[1]], training = TRUE)",
    "    loss <- self$compute_loss(y = data[[2]], y_pred = y_pred)",
    "  })",
    "  self$optimizer$apply(tape$gradient(loss, self$trainable_weights), self$trainable_weights)",
    "  for (each in self$metrics) {",
    "    if (each$name == 'loss') each$update_state(loss) else each$update_state(data[[2]], y_pred)",
    "  }",
    "  setNames(lapply(self$metrics, function(each) each$result()), sapply(self$metrics, `[[`, 'name'))",
    "})",
    "set_random_seed(1L)",
    "with(made$scope(), {",
    "  input <- keras_input(4)",
    "  output <- input |> layer_lambda(function(x) x * 2) |> layer_dense(3, activation = 'tanh') |>",
    "    layer_dense(1)",
    "  model <- Own(input, output)",
    "  squares <- function(y_true, y_pred) op_mean(op_square(y_true - y_pred), axis = -1L)",
    "  error <- custom_metric('error', function(y_true, y_pred) op_abs(y_true - y_pred))",
    "  model |> compile(optimizer = 'sgd', loss = squares, metrics = list(error, Total(name = 'total')))",
    "  plain <- keras_model(input, output)",
    "})",
    "x <- matrix(seq(0, 1, length.out = 400), 100)",
    "y <- matrix(rowSums(x))",
    "history <- model |> fit(x, y, epochs = 2, batch_size = 20, shuffle = FALSE, verbose = 0)",
    "scores <- model |> evaluate(x, y, batch_size = 20, verbose = 0)",
    "numbers <- unlist(c(history$metrics, scores, sum(predict(model, x, verbose = 0))))",
    "if (requireNamespace('tfdatasets', quietly = TRUE)) {",
    "  cast <- function(x, y) list(tf$cast(x, 'float32'), tf$cast(y, 'float32'))",
    "  data <- tfdatasets::tensor_slices_dataset(list(x, y)) |>",
    "    tfdatasets::dataset_shuffle(100, seed = 3L) |>",
    "    tfdatasets::dataset_map(cast) |> tfdatasets::dataset_batch(20)",
    "  numbers <- c(numbers, unlist(fit(model, data, epochs = 2, verbose = 0)$metrics))",
    "}",
    "cat('numbers', format(numbers, digits = 6), '\\n')",
    "if (several) {",
    # The other worker comes when the chief's files are there.
    "  if (Sys.getenv('TFMUSTER_IS_CHIEF') == '0') Sys.sleep(2)",
    sprintf("  own <- '%s'", folder),
    "  export_savedmodel(plain, file.path(own, 'exported'), verbose = FALSE)",
    "  save_model(plain, file.path(own, 'saved.keras'))",
    "  save_model_weights(plain, file.path(own, 'saved.weights.h5'))",
    "  same <- identical(plain, save_model_config(plain, file.path(own, 'config.json')))",
    "  stopifnot(same)",
    "}"
  ))
  expected <- numbers_of(run_r(readLines(program))$output)[[1]]
  expect_gte(length(expected), 10)
  run_dir <- file.path(withr::local_tempdir(), "run")
  control <- launch_control(all_output = TRUE)
  shown <- capture.output(launch(program, workers = 2, run_dir = run_dir, control = control))
  expect_equal(numbers_of(shown), list(expected, expected), tolerance = 1e-5)
  saved <- c("config.json", "exported", "saved.keras", "saved.weights.h5")
  expect_setequal(list.files(folder), saved)
})

test_that("launch(function) trains from a session that has keras3 attached", {
  run <- run_r(c(
    "library(keras3)",
    "train <- function(strategy) {",
    "  with(strategy$scope(), {",
    "    model <- keras_model_sequential(input_shape = 4) |> layer_dense(1)",
    "    model |> compile(optimizer = 'sgd', loss = 'mse')",
    "  })",
    "  x <- matrix(runif(256), 64)",
    "  history <- model |> fit(x, rowSums(x), batch_size = 16, epochs = 2, verbose = 0)",
    "  unlist(history$metrics)",
    "}",
    "values <- tfmuster::launch(train, workers = 2, quiet = TRUE, run_dir = tempfile('run'))",
    "cat('same', identical(values[[1]], values[[2]]), length(values[[1]]), '\\n')"
  ))
  expect_match(run$output, "same TRUE 2", all = FALSE)
})

test_that("keras3 scripts and functions without a strategy train on two workers", {
  train <- function() {
    keras3::set_random_seed(1L)
    x <- matrix(1:192 %% 7 / 7, 64)
    model <- keras_model_sequential(input_shape = 3) |> layer_dense(4, activation = "tanh") |> layer_dense(1)
    model |> compile(optimizer = "sgd", loss = "mse")
    history <- model |> fit(x, matrix(rowSums(x)), batch_size = 16, epochs = 2, verbose = 0)
    c(as.numeric(model$optimizer$iterations$numpy()), history$metrics$loss)
  }
  defined <- c("library(keras3)", paste("train <-", paste(deparse(train), collapse = "\n")))
  show <- "cat('numbers', format(train(), digits = 7), '\\n')"
  expected <- numbers_of(run_r(c(defined, show))$output)[[1]]
  expect_equal(expected[1], 8)
  script <- withr::local_tempfile(fileext = ".R", lines = c(defined, show))
  folder <- file.path(withr::local_tempdir(), "run")
  distributed <- launch_control(distribute = TRUE, all_output = TRUE)
  shown <- capture.output(launch(script, workers = 2, control = distributed, run_dir = folder))
  expect_equal(numbers_of(shown), list(expected, expected), tolerance = 1e-5)
  run <- run_r(c(
    defined,
    "distributed <- launch_control(distribute = TRUE)",
    "values <- launch(train, workers = 2, control = distributed, quiet = TRUE, run_dir = tempfile('run'))",
    "for (value in values) cat('numbers', format(value, digits = 7), '\\n')"
  ))
  expect_equal(numbers_of(run$output), list(expected, expected), tolerance = 1e-5)
})
