test_that("strategy_table() has a row for each strategy, and says why", {
  skip_without_python()
  withr::local_envvar(TF_CONFIG = NA)
  table <- strategy_table()
  expect_named(table, c("strategy", "fit", "custom_loop", "here", "why"))
  expect_setequal(table$strategy, c(
    "default", "one_device", "mirrored", "central_storage", "multi_worker_mirrored", "parameter_server", "tpu"
  ))
  expect_true(table$here[table$strategy == "default"])
  expect_false(table$here[table$strategy == "parameter_server"])
  expect_true(all(nzchar(table$why)))
  withr::local_options(width = 80)
  shown <- capture.output(print(table))
  expect_true(all(nchar(shown) <= 80))
  expect_match(shown, "^ +mirrored +fit", all = FALSE)
  expect_s3_class(table[1:2, ], "data.frame", exact = TRUE)

  withr::local_envvar(TF_CONFIG = tf_config_json(cluster_task(two_workers(), "worker", 0)))
  here <- strategy_table()
  expect_true(here$here[here$strategy == "multi_worker_mirrored"])
})

test_that("a step written in R runs on each batch, and is reduced", {
  skip_without_python(tensorflow = TRUE)
  tf <- reticulate::import("tensorflow")
  made <- strategy("one_device")
  batches <- tf$data$Dataset$from_tensor_slices(array(as.numeric(1:4)))$batch(2L)
  for (reduce in c("sum", "mean")) {
    step <- distributed_step(made, function(batch) tf$reduce_sum(batch), reduce = reduce)
    iterator <- reticulate::as_iterator(made$experimental_distribute_dataset(batches))
    expect_equal(as.numeric(step(iterator)$numpy()), 3)
    expect_equal(as.numeric(step(iterator)$numpy()), 7)
  }
  expect_equal(expect_kind(distributed_step(made, identity, reduce = "max"), "strategy")$reason, "reduce")
})

test_that("checkpoints are followed by an evaluator only", {
  skip_without_python(tensorflow = TRUE)
  withr::local_envvar(TF_CONFIG = NA)
  model <- mnist_model("softmax")
  error <- expect_kind(evaluate_checkpoints(model, list(1, 1), folder = tempdir()), "strategy")
  expect_equal(error$reason, "task-type")
})

test_that("an evaluator in R tests each checkpoint of a job, and gets a data frame", {
  skip_if_fast()
  skip_on_cran()
  skip_without_python(tensorflow = TRUE)
  train <- function() {
    digits <- synthetic(1, 640, 64)
    if (identical(current_task()$type, "evaluator")) {
      model <- mnist_model("softmax")
      found <- evaluate_checkpoints(model, list(digits$x_test, digits$y_test), verbose = FALSE)
      return(saveRDS(found, file.path(Sys.getenv("TFMUSTER_RUN_DIR"), "found.rds")))
    }
    train_mnist(
      "softmax", digits,
      epochs = 2, steps_per_epoch = 5, checkpoint_every = "epoch", verbose = FALSE
    )
  }
  run_dir <- file.path(withr::local_tempdir(), "run")
  launch(train, workers = 1, control = launch_control(evaluator = TRUE), quiet = TRUE, run_dir = run_dir)
  found <- readRDS(file.path(run_dir, "found.rds"))
  expect_s3_class(found, "data.frame")
  # An evaluator that starts late finds the last one only.
  expect_true(10 %in% found$step)
  expect_true(all(c("step", "time", "loss", "accuracy") %in% names(found)))
  expect_true(file.exists(file.path(run_dir, "evaluations.jsonl")))
})
