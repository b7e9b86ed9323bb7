# R code inside a model: with one device per process it runs in R's thread, also on several workers.
skip_if_fast()
skip_without_python(tensorflow = TRUE)

of_the_model <- c(
  "keras <- reticulate::import('keras')",
  "tf <- reticulate::import('tensorflow')",
  "ops <- keras$ops",
  "Doubled <- reticulate::PyClass('Doubled', inherit = keras$layers$Layer, defs = list(",
  "  build = function(self, shape) {",
  "    self$kernel <- self$add_weight(shape = reticulate::tuple(4L, 3L), initializer = 'ones')",
  "    NULL",
  "  },",
  "  call = function(self, inputs) ops$multiply(ops$matmul(inputs, self$kernel), 2)",
  "))",
  "loss <- function(y_true, y_pred) ops$mean(ops$square(ops$subtract(y_true, y_pred)))",
  "error <- function(y_true, y_pred) ops$abs(ops$subtract(ops$reshape(y_true, list(-1L, 1L)), y_pred))",
  "with(made$scope(), {",
  "  keras$utils$set_random_seed(1L)",
  "  input <- keras$Input(reticulate::tuple(4L))",
  "  raised <- keras$layers$Lambda(function(x) ops$add(x, 1))(input)",
  "  model <- keras$Model(input, keras$layers$Dense(1L)(Doubled()(raised)))",
  "  compile(model, optimizer = keras$optimizers$SGD(0.001), loss = loss,",
  "    metrics = list(keras$metrics$MeanMetricWrapper(error, name = 'error')))",
  "})",
  "x <- matrix(seq(0, 1, length.out = 400), 100)",
  "y <- matrix(rowSums(x))",
  "history <- fit(model, x, y, epochs = 2, batch_size = 20, shuffle = FALSE, verbose = FALSE)",
  "scores <- evaluate(model, x, y, batch_size = 20)",
  "numbers <- c(history$value, unlist(scores), predict(model, x[1:3, ]))",
  "cat('numbers', format(numbers, digits = 6), '\\n')",
  "plus <- function(value) tf$add(value, 1)",
  "cat('run', made$run(plus, args = list(tf$constant(2)))$numpy(), '\\n')",
  "total <- function(value) tf$distribute$get_replica_context()$all_reduce('SUM', value)",
  "whole <- tf$`function`(function(value) made$run(total, args = list(value)))",
  "cat('sum', whole(tf$constant(2))$numpy(), '\\n')"
)

test_that("layers, losses, metrics and lambdas written in R give one process's numbers on two workers", {
  one <- run_r(c("made <- strategy('default')", of_the_model))
  expect_equal(one$status, 0)
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "library(tfmuster)", "made <- strategy('multi_worker_mirrored')", of_the_model,
    "outside <- keras$Sequential(list(keras$Input(reticulate::tuple(4L)), keras$layers$Dense(1L)))",
    "outside$compile('sgd', 'mse')",
    "refused <- tryCatch(fit(outside, x, y, verbose = FALSE), tfmuster_error_strategy = identity)",
    "in_r <- grepl('with(strategy$scope(), { ... })', refused$fix, fixed = TRUE)",
    "cat('outside', refused$reason, in_r, '\\n')"
  ))
  run_dir <- file.path(withr::local_tempdir(), "run")
  control <- launch_control(all_output = TRUE)
  shown <- capture.output(launch(script, workers = 2, run_dir = run_dir, control = control))
  expected <- numbers_of(one$output)[[1]]
  expect_length(expected, 9)
  several <- numbers_of(shown)
  expect_length(several, 2)
  for (each in several) expect_equal(each, expected, tolerance = 1e-5)
  for (worker in 0:1) {
    expect_true(paste0("worker ", worker, " | run 3") %in% trimws(shown))
    expect_true(paste0("worker ", worker, " | sum 4") %in% trimws(shown))
    expect_true(paste0("worker ", worker, " | outside not-distributed TRUE") %in% trimws(shown))
  }
  expect_false(any(grepl("AutoGraph", shown)))
})

test_that("R code on several devices of one process is refused, with what to do", {
  run <- run_r(c(
    "made <- strategy('mirrored', replicas = 2)",
    "tf <- reticulate::import('tensorflow')",
    "refused <- tryCatch(made$run(function() 1), error = conditionMessage)",
    "cat('refused', grepl('has only one thread', refused), grepl('gpus_per_worker = 1', refused), '\\n')",
    "one <- strategy('mirrored', replicas = 1)",
    "cat('one device', one$run(function() tf$constant(1))$numpy(), '\\n')"
  ))
  expect_true("refused TRUE TRUE " %in% run$output, info = paste(run$output, collapse = "\n"))
  expect_true("one device 1 " %in% run$output)
})

test_that("TensorFlow traces R functions in a pipeline without a word", {
  skip_without_python(tensorflow = TRUE)
  traced <- run_r(c(
    "made <- strategy('default')",
    "tf <- reticulate::import('tensorflow')",
    "data <- tf$data$Dataset$range(5L)$map(function(x) tf$multiply(x, 2L))",
    "data <- data$filter(function(x) tf$less(x, 7L))$batch(4L)",
    "plus <- tf$`function`(function(x) tf$add(x, 1L))",
    "total <- plus(tf$reduce_sum(reticulate::iter_next(reticulate::as_iterator(data))))",
    "cat('total', total$numpy(), '\\n')"
  ))
  # Nothing but TensorFlow's own lines at its start.
  said <- grep("^([IEW][0-9]{4} |WARNING: All log|To enable the|[0-9-]+ [0-9:.]+: I )", traced$output,
               value = TRUE, invert = TRUE)
  expect_equal(said, "total 13 ")
})
