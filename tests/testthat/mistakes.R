# What users get wrong: each expression is to end with an error whose texts are R's alone. It needs `folder`,
# an empty folder, `run`, a run that has ended without a model, and `model`, a compiled Keras model.
mistakes <- expression(
  strategy("mirored"), strategy("mirrored", replicas = 0), strategy("mirrored", replicas = 2.5),
  strategy("mirrored", devices = "CPU:0", replicas = 2), strategy("mirrored", devices = "GPU:7"),
  strategy("mirrored", devices = c("CPU:0", "CPU:0")), strategy("one_device", devices = c("CPU:0", "CPU:1")),
  strategy("one_device", replicas = 2), strategy("multi_worker_mirrored"), strategy("parameter_server"),
  strategy("multi_worker_mirrored", communication = "rign"), strategy("mirrored", tpu = "local"),
  strategy("multi_worker_mirrored", gradient_dtype = "float8"),
  strategy("multi_worker_mirrored", batch_norm = "global"), strategy(c("a", "b")), strategy(NA),
  train_mnist("cn", dataset = "synthetic"), train_mnist("resnet", dataset = "synthetic"),
  train_mnist("cnn", dataset = "synthetic", epochs = 0),
  train_mnist("cnn", dataset = "synthetic", steps_per_epoch = -1),
  train_mnist("cnn", dataset = "synthetic", batch_size = 2.5),
  train_mnist("cnn", dataset = "synthetic", optimizer = "adm"),
  train_mnist("cnn", dataset = "synthetic", optimizer = "nothing"),
  train_mnist("cnn", dataset = "synthetic", learning_rate = -1),
  train_mnist("cnn", dataset = "synthetic", gradient_accumulation_steps = 0),
  train_mnist("cnn", dataset = "synthetic", validation_split = 2),
  train_mnist("cnn", dataset = "synthetic", updates = "sync"),
  train_mnist("cnn", dataset = "synthetic", replicas_to_aggregate = 2),
  train_mnist("cnn", dataset = "synthetic", seed = -1),
  train_mnist("cnn", dataset = "synthetic", checkpoint_every = 0),
  train_mnist("cnn", dataset = file.path(folder, "none.npz")), train_mnist("cnn", dataset = folder),
  mnist_model("cnn", dropout = 2), mnist_model("mlp", dropout = 2), mnist_model("mlp", dropout = "none"),
  mnist_model("cnn", initial_weights = "zeros"), mnist_model("softmax", initial_weights = "ones"),
  mnist_model("cnn", seed = 0.5), mnist_model(NULL),
  mnist(file.path(folder, "none.npz")), synthetic(-1), synthetic(1, train = 2.5),
  launch(function() 1, workers = 0.5), launch(function() 1, workers = "two"),
  launch(function() 1, worker = 2),
  launch(function() 1, strategy = "mirored"), launch(function() 1, seed = -1), launch("none.R"), launch(7),
  launch("train.R", worker = 2), launch("no-such-program"),
  launch("train.R", run_dir = "run"), launch("train.R", run_dir = "/proc/none/here"),
  launch("train.R", control = launch_control(start_timeout = -1)), launch("train.R", max_restarts = 1.5),
  launch("train.R", control = launch_control(distribute = TRUE, independent = TRUE)),
  launch("train.R", control = launch_control(scale_batch = TRUE)),
  launch("train.R", control = launch_control(distribute = TRUE, ps = 1)),
  launch("train.R", control = launch_control(notice_command = " ")),
  launch("train.R", control = launch_control(grace = 0)), launch("train.R", control = "quiet"),
  launch("train.R", control = launch_control(stall_timeout = -1)), launch("train.R", on = "ssh"),
  launch("train.R", on = on_ssh()), launch("train.R", on = on_ssh("node1:x")),
  launch("train.R", workers = 9, on = on_ssh("node1:2,node2:2")),
  launch("train.R", on = on_ssh("127.0.0.1:1,node2:1")),
  launch("train.R", on = on_ssh("node1:2", remote_python = "-python")),
  launch("train.csv", on = on_ssh("node1:2", copy = TRUE)),
  launch("train.R", on = on_ssh("node1:2", files = "none.csv")),
  launch("train.R", on = on_ssh("node1:1,node2:1", min_workers = 3)),
  launch("train.R", on = on_ssh("node1:1,node2:1", min_workers = 1)),
  launch("train.R", on = on_ssh("node1:1", grow = 5)), launch("train.R", on = on_ssh("node1:1", grow = -5)),
  launch("train.R", on = on_ssh("node1:1", hosts_from = "false")),
  launch("train.R", on = on_ssh(hosts_from = "echo '?'")),
  launch("train.R", on = on_local(warm = TRUE)), launch("true", on = on_local(warm = TRUE), max_restarts = 1),
  launch("train.R", on = on_slurm("partition=gpu")), launch("train.R", on = on_slurm(7)),
  launch("train.R", on = on_slurm()), launch("train.R", on = on_sge("-pe a 7", "-pe b")),
  launch("train.R", on = on_pbs()), launch("train.R", on = on_lsf()),
  launch("train.R", on = on_mpi("me@node1:2")), launch("train.R", on = on_spark("local[2]", "cores=4")),
  launch("train.R", on = on_spark(spark = 7)),
  launch("train.R", backend = "slurm"), launch("train.R", hosts = "node1"), launch("train.R", copy = TRUE),
  launch(function(strategy) 1, strategy = "mirrored"), launch(function() 1, env = c(A = "1")),
  workers(-1), workers(2.5), workers(1, idle = 0),
  run_status("no-such-run"), run_logs(run, task = "worker 7"), run_model(run), run_resume(run),
  run_remove("12 days"), run_remove(7), tfmuster_tensorboard(run), run_history("no-such-run"),
  run_view(run, path = "/proc/none/report.html"), run_list(folder = 7), run_stop("no-such-run"),
  callback_checkpoint(), callback_checkpoint(folder, every = 0), callback_checkpoint(folder, every = "day"),
  callback_tensorboard(), evaluate_checkpoints(model, list(1, 2)),
  model_to_file(model), model_to_file(model, file.path(folder, "model.txt")),
  model_to_file(model, "/proc/none/model.keras"), model_to_bytes(model, format = "onnx"),
  model_from_bytes(as.raw(1:9)), model_from_bytes("?"),
  ps_fit(model, function(context) NULL, epochs = 1, steps_per_epoch = 1),
  own_rows(7, batch_size = 0), own_rows(matrix(1, 4, 2), 1:3, batch_size = 2),
  batches(matrix(1, 4, 2), 1:3, 2, seed = 1), batches(matrix(1, 4, 2), 1:4, 0, seed = 1),
  file_batches(file.path(folder, "none.csv"), csv_rows("y"), 32, seed = 1), csv_rows(7),
  fit(model, matrix(0, 4, 2), c(0L, 1L, 2L, 9L), verbose = 0), fit(model, matrix(0, 4, 2), 1:3, verbose = 0),
  fit(model, matrix(0, 4, 2), c(0, 1, 2, 0), class_weight = c(a = 1, b = 2)),
  fit(model, matrix(0, 4, 2), c(0, 1, 2, 0), class_weight = list("0" = NA)),
  fit(model, matrix(0, 4, 2), factor(c("a", "b", "c", "a")), class_weight = c(a = 1, z = 2)),
  fit(model, matrix(0, 4, 2), c(0, 1, 2, 0), class_weight = c(1, 2)),
  fit(model, matrix(0, 4, 2), c(0, 1, 2, 0), class_weight = c("7" = 2)),
  fit(model, matrix(0, 4, 2), c(0, 1, 2, 0), class_weight = c("0" = 1, "0" = 2)),
  fit(model, matrix(0, 4, 2), c(0, 1, 2, 0), class_weight = c("0" = 1), sample_weight = 1:4),
  fit(model, matrix(0, 4, 2), c(0, 1, 2, 0), sample_weight = 1:3),
  evaluate(model, matrix(0, 4, 2), c(0, 1, 2, 0), sample_weight = letters[1:4]),
  fit(model, function() list(matrix(0, 4, 2), c(0, 1, 2, 0)), sample_weight = 1:4),
  fit(model, array(0, c(4, 2, 3)), 1:4, verbose = 0), predict(model, array(0, c(4, 2, 3))),
  compile(model, optimizer = "adm", loss = "mse"), compile(model, optimizer = "nothing", loss = "mse"),
  fit(model, function() NULL, steps_per_epoch = 1, verbose = 0), fit(model, y ~ x, data = 7),
  cluster_spec(worker = "a"), cluster_spec(worker = c("a:1", "a:1")), cluster_spec(),
  cluster_spec(worker = NA),
  cluster_task(cluster_spec(worker = "a:1"), "ps", 0), cluster_from_file(file.path(folder, "none.yaml")),
  parse_tf_config("{"), parse_tf_config("{\"cluster\": null}"), use_tf_config(7),
  tf_config_from_barrier(7)
)

# What is not R, in a text: in its quoted parts, too, and outside of them.
not_r <- "\\['|\\bPosixPath|\\bb'\\\\x|\\bNone\\b(?! of)|\\b(True|False)\\b"
not_r_unquoted <- paste(
  c(
    "(?<![\\d.])\\d+\\.0\\b(?!\\.)", "\\b[a-z_]+=[^=]", "\\btfmuster (launch|runs|doctor|config)\\b",
    "(?<![\\w-])--[a-z]", "\\btfmuster\\.", "\\bnumpy\\b", "\\bdict\\b", "\\btuple\\b", "\\blambda\\b",
    "\\(-[nH]\\b", "\\bkeras\\.[a-z]"
  ),
  collapse = "|"
)
is_not_r <- function(text) {
  unquoted <- gsub("\"[^\"]*\"|'[^']*'", "", text)
  grepl(not_r, text, perl = TRUE) || grepl(not_r_unquoted, unquoted, perl = TRUE)
}

# The texts of a mistake as R shows them, or NULL if there is no error.
texts_of <- function(mistake, frame) {
  error <- tryCatch(
    suppressMessages(suppressWarnings(eval(mistake, frame))),
    error = identity
  )
  if (inherits(error, "error")) paste(class(error)[1], conditionMessage(error), sep = ": ")
}
