# Every function that is exported, called with one argument that is wrong: only errors of tfmuster's classes,
# which say what the argument is called, at most two seconds of a processor each.

wrong_values <- list(
  null = NULL, na = NA, text = "x", two = c(1, 2), texts = c("a", "b"), negative = -1, half = 1.5,
  fn = function() 1, frame = data.frame(a = 1), list = list(1), environment = globalenv(),
  empty = character(), formula = y ~ x
)

# Arguments of calls that are right but for what is replaced, and that start nothing.
right_calls <- function(run) {
  cluster <- two_workers()
  task <- cluster_task(cluster, "worker", 0)
  model <- mnist_model("softmax")
  digits <- synthetic(train = 64, test = 16)
  one <- strategy("one_device")
  of_run <- list(run = run)
  list(
    all_rows = list(tensor = digits$y_test),
    batches = list(x = matrix(runif(20), 10), y = 1:10, batch_size = 5, seed = 1), broadcast = list(),
    callback_checkpoint = list(folder = "checkpoints"), callback_tensorboard = list(), check_cluster = list(),
    chief_first = list(expr = 1), cluster_from_file = list(path = "cluster.json"),
    cluster_spec = list(worker = "127.0.0.1:7001"),
    compare_runs = list(runs = list(run, run)),
    cluster_task = list(cluster = cluster, type = "worker", index = 0), csv_rows = list(),
    current_task = list(), distributed_step = list(strategy = one, step_fn = function(x) x),
    evaluate_checkpoints = list(model = model, data = list(digits$x_test, digits$y_test)),
    file_batches = list(files = "rows.csv", read = csv_rows(), batch_size = 2, seed = 1),
    gather = list(value = 1), image_rows = list(size = c(8, 8)), install_tfmuster = list(python = "nowhere"),
    launch = list(script = "nowhere.R"), launch_control = list(), mnist = list(),
    mnist_model = list(name = "softmax"), model_from_bytes = list(data = model_to_bytes(model)),
    model_to_bytes = list(model = model), model_to_file = list(model = model, path = "model.keras"),
    on_local = list(), on_lsf = list(), on_mpi = list(), on_pbs = list(), on_sge = list(), on_slurm = list(),
    on_spark = list(), on_ssh = list(hosts = "node1"),
    own_rows = list(x = matrix(runif(20), 10), y = 1:10), parquet_rows = list(),
    parse_tf_config = list(text = tf_config_json(task)),
    ps_fit = list(model = model, dataset_fn = function(context) NULL),
    callback_r = list(on_epoch_end = function(epoch, logs) NULL), run_history = of_run,
    run_in_rstudio = of_run, run_list = list(), run_logs = of_run, run_model = of_run,
    run_open = list(name = run$name), run_remove = list(run = "nowhere"), run_resume = of_run,
    run_stacks = of_run, run_status = of_run, run_stop = of_run, run_values = of_run, run_wait = of_run,
    strategy = list(name = "one_device"), strategy_table = list(), synthetic = list(train = 20, test = 10),
    tf_config_from_barrier = list(barrier = list(address = c("127.0.0.1:1", "127.0.0.1:2"), partition = 0)),
    tf_config_json = list(task = task), tfmuster_available = list(), tfmuster_doctor = list(),
    tfmuster_command = list(python = "nowhere"), tfmuster_tensorboard = list(run = "nowhere"),
    tfmuster_test = list(),
    tfrecord_rows = list(features = list(a = 2)),
    train_mnist = list(model = "softmax", dataset = "nowhere.npz"), use_tf_config = list(task = task),
    run_view = list(run = run, open = FALSE), workers = list(number = 0)
  )
}

# Their methods are tested elsewhere.
generics <- c("compile", "evaluate", "fit", "glance", "tidy")

# What is wrong with a call, as text; NULL if it is accepted, or refused as it should be.
fault_of <- function(fn, given, name) {
  for (attempt in 1:3) {
    begun <- proc.time()
    error <- tryCatch(
      {
        utils::capture.output(suppressMessages(suppressWarnings(do.call(fn, given, quote = TRUE))))
        NULL
      },
      error = identity
    )
    spent <- proc.time() - begun
    # Of a processor: on a busy machine a call waits for others. What only waits is slow after ten seconds.
    slow <- spent[["user.self"]] + spent[["sys.self"]] > 2 || spent[["elapsed"]] > 10
    # TensorFlow loads parts of itself with their first use.
    if (!slow) break
  }
  fault <- c(
    if (!is.null(error) && !inherits(error, "tfmuster_error")) conditionMessage(error),
    if (slow) sprintf("%.1f seconds", spent[["elapsed"]])
  )
  if (length(fault)) paste0(fn, "(", name, "): ", paste(fault, collapse = "; "))
}

test_that("a call with a wrong argument ends with an error of its own", {
  skip_without_python(tensorflow = TRUE)
  skip_if_fast()
  withr::local_dir(withr::local_tempdir())
  run <- launch(function() 1, workers = 1, quiet = TRUE, wait = FALSE)
  run_wait(run)
  right <- right_calls(run)
  expect_setequal(c(names(right), generics), getNamespaceExports("tfmuster"))
  faults <- NULL
  for (fn in names(right)) {
    formals <- formals(get(fn, asNamespace("tfmuster")))
    for (name in setdiff(names(formals), "...")) {
      values <- wrong_values
      # What is right here starts a job, asks the machine, or downloads the digits.
      if (fn %in% c("launch", "tfmuster_doctor", "tfmuster_test")) values[c("fn", "half")] <- NULL
      if (name %in% c("dataset", "path", "python") && is.null(formals[[name]])) values$null <- NULL
      if (fn %in% c("tfmuster_doctor", "tfmuster_test")) right[[fn]]$timeout <- "none"
      calls <- lapply(values, function(value) {
        given <- right[[fn]]
        given[name] <- list(value)
        given
      })
      if (rlang::is_missing(formals[[name]]) && fn != "run_remove") {
        calls <- c(calls, list(right[[fn]][setdiff(names(right[[fn]]), name)]))
      }
      faults <- c(faults, unlist(lapply(calls, function(given) fault_of(fn, given, name))))
    }
  }
  expect_equal(faults, NULL)
})

test_that("an argument that is missing is named", {
  skip_without_python()
  expect_error(launch(), "`script` must be given", class = "tfmuster_error_launch")
  expect_error(batches(matrix(1:4), 1:4), "`batch_size` must be given", class = "tfmuster_error_data")
  expect_error(workers(), "`number` must be given", class = "tfmuster_error_launch")
  expect_error(chief_first(), "`expr`", class = "tfmuster_error")
})

test_that("a name that is not like one of launch() is not taken for it", {
  expect_error(launch("train.R", lr = 0.1), "Write \"--lr\", 0.1", class = "tfmuster_error_launch")
  expect_error(launch("train.R", n = 2), "Did you mean `workers`", class = "tfmuster_error_launch")
  expect_error(launch("train.R", worker = 2), "Did you mean `workers`", class = "tfmuster_error_launch")
})

test_that("install_tfmuster() starts nothing with a Python that is none", {
  expect_error(install_tfmuster(python = "/nowhere"), "`python`", class = "tfmuster_error_dependency")
})

test_that("no run is removed for NULL, and a name is looked for in the folder", {
  skip_without_python()
  expect_error(run_remove(NULL), class = "tfmuster_error")
  folder <- withr::local_tempdir()
  expect_error(run_remove("none", folder = folder), basename(folder), class = "tfmuster_error")
})
