# What `make train` runs: MNIST on several workers of this machine, started from one R session, and the model
# back in that session.
#
#   Rscript examples/train.R [synthetic | FILE | FOLDER] [WORKERS]
library(tfmuster)

arguments <- commandArgs(trailingOnly = TRUE)
dataset <- if (length(arguments)) arguments[[1]] else "synthetic"
workers <- if (length(arguments) > 1) utils::type.convert(arguments[[2]], as.is = TRUE) else 2L

if (is.null(current_task())) {
  if (dataset == "synthetic") {
    cat("These digits are drawn by tfmuster; they are not MNIST. For real ones: make train DATA=mnist.npz\n")
  }
  this_file <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  run <- launch(this_file, dataset, workers = workers, name = "mnist")
  result <- jsonlite::fromJSON(file.path(format(run$path), "result.json"))
  cat(
    sprintf("\nData: %s; %d workers, started from R.", dataset, workers),
    sprintf("Test accuracy: %.1f%%", 100 * result$test_accuracy),
    paste("Model:", format(run$model_path)),
    "",
    "What to try next:",
    "  make train DATA=mnist.npz                              real digits: a .npz file or a folder",
    "  .venv/bin/tfmuster runs show                           this run again",
    "  .venv/bin/tfmuster launch -n 2 --distribute script.R   your own program, as it is",
    "  R_LIBS=.rlib RETICULATE_PYTHON=.venv/bin/python R      then library(tfmuster), ?launch",
    sep = "\n"
  )
} else {
  folder <- Sys.getenv("TFMUSTER_RUN_DIR")
  result <- train_mnist(
    "cnn",
    dataset = dataset, strategy = "multi_worker_mirrored", epochs = 5, steps_per_epoch = 0, seed = 1,
    save = file.path(folder, "model.keras"), history = file.path(folder, "result.json")
  )
}
