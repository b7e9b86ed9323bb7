test_that("an unknown strategy is refused with its name", {
  skip_without_python(tensorflow = TRUE)
  error <- expect_kind(strategy("no_such_{strategy}"), "strategy")
  expect_equal(error$strategy, "no_such_{strategy}")
  expect_equal(error$reason, "unknown-strategy")
  expect_snapshot(strategy("morrored"), error = TRUE)
})

test_that("multi_worker_mirrored without a cluster is refused at once", {
  skip_without_python(tensorflow = TRUE)
  withr::local_envvar(TF_CONFIG = NA)
  expect_snapshot(strategy("multi_worker_mirrored"), error = TRUE)
})

test_that("a bad TF_CONFIG set from R is noticed, though Python runs already", {
  skip_without_python(tensorflow = TRUE)
  withr::local_envvar(TF_CONFIG = '{"cluster": {"worker": ["a"]}}')
  expect_kind(strategy("multi_worker_mirrored"), "cluster")
})

test_that("with() enters the scope of a strategy, and leaves it", {
  skip_without_python(tensorflow = TRUE)
  tf <- reticulate::import("tensorflow")
  central <- strategy("central_storage")
  expect_s3_class(central, "python.builtin.object")
  inside <- with(central$scope(), tf$distribute$in_cross_replica_context() && tf$distribute$has_strategy())
  expect_true(inside)
  expect_false(tf$distribute$has_strategy())
  expect_error(with(central$scope(), stop("in the scope")), "in the scope")
  expect_false(tf$distribute$has_strategy())
})

trained_model <- c(
  own_model,
  "history <- model$fit(digits$x_train, digits$y_train, batch_size = 64L, epochs = 2L, verbose = 0L)",
  "data <- as.data.frame(history)",
  "stopifnot(nrow(data) == 4, all(is.finite(data$value)))",
  "cat(sprintf('\\nreplicas %d weights %.6f\\n', made$num_replicas_in_sync,",
  "  sum(abs(model$get_weights()[[1]]))))"
)

test_that("a model built from R trains under mirrored with two logical CPUs", {
  skip_without_python(tensorflow = TRUE)
  run <- run_r(c("made <- strategy('mirrored', replicas = 2)", trained_model))
  expect_equal(run$status, 0, info = run$output)
  expect_match(run$output, "replicas 2", all = FALSE)
})

test_that("a model built from R trains under multi_worker_mirrored with one worker", {
  skip_without_python(tensorflow = TRUE)
  run <- run_r(c(
    "made <- strategy('multi_worker_mirrored')", trained_model,
    "again <- strategy('multi_worker_mirrored')",
    "cat('same strategy', identical(reticulate::py_id(again), reticulate::py_id(made)), '\\n')",
    "second <- tryCatch(strategy('multi_worker_mirrored', communication = 'ring'), error = identity)",
    "stopifnot(inherits(second, 'tfmuster_error_strategy'))",
    "cat(second$reason)"
  ), env = c(TF_CONFIG = NA, TFMUSTER_STRICT = NA))
  expect_match(run$output, "one worker trains, because TF_CONFIG is not set", all = FALSE)
  expect_equal(run$status, 0, info = run$output)
  expect_match(run$output, "replicas 1", all = FALSE)
  expect_match(run$output, "same strategy TRUE", all = FALSE)
  expect_match(run$output, "second-strategy", all = FALSE)
})

test_that("TensorFlow in use before the strategy is an R error that says what to do", {
  skip_without_python(tensorflow = TRUE)
  spec <- sprintf("cluster_spec(worker = '127.0.0.1:%d')", free_ports(1))
  run <- run_r(c(
    "tf <- reticulate::import('tensorflow'); invisible(tf$constant(1))",
    sprintf("use_tf_config(cluster_task(%s, 'worker', 0))", spec),
    "error <- tryCatch(strategy('multi_worker_mirrored'), tfmuster_error_strategy = identity)",
    "cat(error$reason, conditionMessage(error))"
  ))
  expect_match(run$output, "already-started", all = FALSE)
  expect_match(run$output, "library(keras3)", all = FALSE, fixed = TRUE)
})

ways <- list(
  "before Python starts" = "%s",
  "after Python has started" = c("invisible(reticulate::py_config())", "%s"),
  "after TensorFlow is imported" = c("invisible(reticulate::import('tensorflow'))", "%s")
)
for (when in names(ways)) {
  test_that(paste("TensorFlow's own strategy joins a TF_CONFIG that R sets", when), {
    skip_without_python(tensorflow = TRUE)
    shown <- in_two_terminals(c(
      "library(tfmuster)", ways[[when]],
      "made <- reticulate::import('tensorflow')$distribute$MultiWorkerMirroredStrategy()", own_model,
      "history <- fit(model, digits$x_train, digits$y_train, batch_size = 64, verbose = FALSE)",
      "cat('numbers', made$num_replicas_in_sync, format(history$value, digits = 6), '\\n')"
    ))
    expect_trained_together(shown)
  })
}

test_that("the call that started TensorFlow in a worker is named", {
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  writeLines(c(
    "tf <- reticulate::import('tensorflow')",
    "first <- function() tf$constant(1)",
    "x <- first()",
    "tfmuster::strategy('multi_worker_mirrored')"
  ), file.path(folder, "late.R"))
  error <- expect_error(
    launch(file.path(folder, "late.R"), workers = 1, run_dir = file.path(folder, "run"), quiet = TRUE),
    class = "tfmuster_error_worker"
  )
  expect_match(unlist(error$last_lines), "it was started by first()", fixed = TRUE, all = FALSE)
})

test_that("a worker that does not come is named in time", {
  skip_without_python(tensorflow = TRUE)
  ports <- free_ports(2)
  run <- run_r(c(
    sprintf("cluster <- cluster_spec(worker = c('127.0.0.1:%d', '127.0.0.1:%d'))", ports[1], ports[2]),
    "use_tf_config(cluster_task(cluster, 'worker', 0))",
    "error <- tryCatch(",
    "  strategy('multi_worker_mirrored', start_timeout = 2),",
    "  tfmuster_error_rendezvous = identity",
    ")",
    "cat('ended with:', conditionMessage(error))"
  ), env = c(TF_CONFIG = NA))
  expect_match(paste(run$output, collapse = "\n"), "ended with:.*worker 1")
})

test_that("a script started manually ends with 3 if not everyone arrives, and with 1 by another error", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  ports <- free_ports(2)
  alone <- c(
    sprintf("spec <- cluster_spec(worker = c('127.0.0.1:%d', '127.0.0.1:%d'))", ports[1], ports[2]),
    "use_tf_config(cluster_task(spec, 'worker', 0))"
  )
  run <- run_r(c(alone, "strategy('multi_worker_mirrored', start_timeout = 2)"))
  expect_equal(run$status, 3)
  expect_match(run$output, "worker 1 .* is missing", all = FALSE)
  caught <- "try(strategy('multi_worker_mirrored', start_timeout = 1), silent = TRUE)"
  expect_equal(run_r(c(alone, caught, "stop('another one')"))$status, 1)
  expect_equal(run_r(c(alone, caught))$status, 0)
})
