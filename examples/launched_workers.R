# The same training on several workers of this machine, started from one R session. No addresses, no ports, no
# second terminal: launch() runs this very file once for each worker.
#
#   Rscript examples/launched_workers.R [WORKERS] [DATASET]
library(tfmuster)

arguments <- commandArgs(trailingOnly = TRUE)
dataset <- if (length(arguments) > 1) arguments[[2]]

if (is.null(current_task())) {
  this_file <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  workers <- if (length(arguments)) as.integer(arguments[[1]]) else 4L
  run <- launch(this_file, workers, dataset, workers = workers)
  cat("Logs and metrics are in", format(run$path), "\n")
} else {
  result <- train_mnist("cnn", dataset = dataset, strategy = "multi_worker_mirrored")
  print(result$history)
}
