# What the parity tests ask R for. Everything crosses as text, so that rpy2's conversions have no say.
suppressPackageStartupMessages({
  library(tfmuster)
  library(jsonlite)
})

# Python calls R's garbage collector, so Python's lock is held while it runs.
collect_with_lock <- function() {
  reticulate::import("functools")$partial(function() invisible(gc()))()
  TRUE
}

# An address table as R users write one: named character vectors.
vectors <- function(jobs) lapply(fromJSON(jobs, simplifyVector = FALSE), function(job) as.character(unlist(job)))

tf_config_from_r <- function(jobs, type, index) {
  tf_config_json(cluster_task(do.call(cluster_spec, vectors(jobs)), type, index))
}

tf_config_from_jsonlite <- function(jobs, type, index) {
  document <- list(cluster = lapply(vectors(jobs), I), task = list(type = type, index = index))
  as.character(toJSON(document, auto_unbox = TRUE))
}

# Equal after a round trip through R's own values?
reads_back <- function(text, jobs, type, index) {
  read <- fromJSON(text, simplifyVector = FALSE)
  identical(lapply(read$cluster, as.character), vectors(jobs)) &&
    identical(read$task, list(type = type, index = index))
}

digest_from_r <- function(jobs) do.call(cluster_spec, vectors(jobs))$digest

# The condition that a call ends with, as JSON: its classes and fields.
condition_from_r <- function(expr) {
  condition <- tryCatch(
    withCallingHandlers(
      {
        expr
        NULL
      },
      tfmuster_warning = function(w) invokeRestart("muffleWarning")
    ),
    error = identity
  )
  if (is.null(condition)) {
    return("null")
  }
  own <- setdiff(names(condition), c("message", "trace", "parent", "call", "body", "footer", "rlang", "use_cli_format"))
  document <- list(class = I(class(condition)), fields = unclass(condition)[own])
  as.character(toJSON(document, auto_unbox = TRUE, null = "null", digits = NA))
}

cluster_error_from_r <- function(arguments) {
  condition_from_r(do.call(cluster_spec, lapply(fromJSON(arguments, simplifyVector = FALSE), identity)))
}

text_error_from_r <- function(text) condition_from_r(parse_tf_config(text))

task_error_from_r <- function(jobs, type, index) {
  cluster <- do.call(cluster_spec, vectors(jobs))
  condition_from_r(cluster_task(cluster, type, fromJSON(index)))
}

file_error_from_r <- function(path) condition_from_r(cluster_from_file(path))

report_from_r <- function(text) {
  as.character(toJSON(check_cluster(text)$to_dict(), auto_unbox = TRUE, null = "null"))
}

model_error_from_r <- function(...) condition_from_r(train_mnist(..., verbose = FALSE))

strategy_error_from_r <- function(...) condition_from_r(strategy(...))

data_error_from_r <- function(path) condition_from_r(mnist(path))

training_from_r <- function(model, epochs, seed, recipe) {
  result <- train_mnist(
    model,
    dataset = synthetic(seed = 1, train = 640, test = 100), epochs = epochs, steps_per_epoch = 4, seed = seed,
    verbose = FALSE, recipe = recipe
  )
  as.character(toJSON(
    list(history = result$history, accuracy = result$test_accuracy, loss = result$test_loss),
    auto_unbox = TRUE, digits = NA
  ))
}

packages_from_r <- function(reticulate, tensorflow = "tensorflow") {
  as.character(toJSON(tfmuster:::required_packages(tensorflow, package_version(reticulate))))
}

python_versions_from_r <- function(reticulate) {
  tfmuster:::python_constraint(package_version(reticulate))
}

pid_of_python <- function() reticulate::import("os")$getpid()
