#' Save a model to a file, or convert it to bytes
#'
#' `model_to_file()` writes a trained model. Call it on every worker: the chief writes the file, and the
#' others write to a temporary folder that is removed. `model_to_bytes()` and `model_from_bytes()` convert a
#' model to a raw vector and back, to send it from a worker to R.
#'
#' @param model A Keras model.
#' @param path Path of the file: `.keras`, `.h5`, or no suffix for a SavedModel folder. An existing model
#'   there is replaced. Default: `model.keras` in the run directory of the job, where [run_model()] looks;
#'   without a launcher, beside the script.
#' @param strategy The strategy. Default: the one of the model.
#' @param format `".keras"` or `".h5"`.
#' @param data A raw vector, or base64 text of it.
#' @return `model_to_file()`, invisibly: the absolute path, or `NULL` on a worker that is not the chief.
#'   `model_to_bytes()`: a raw vector. `model_from_bytes()`: the model. No code of the file runs: its
#'   configuration may name only Keras's own classes and those that this session has registered.
#' @section Errors: `tfmuster_error_model` with the field `reason`, and `path` if a path is involved.
#' @export
#' @examplesIf tfmuster_available()
#' model <- mnist_model("softmax", seed = 1)
#' bytes <- model_to_bytes(model)
#' length(bytes)
#' same <- model_from_bytes(bytes)
#' # The same file on one process; on several workers, the chief writes it.
#' model_to_file(model, tempfile(fileext = ".keras"))
model_to_file <- function(model, path = NULL, strategy = NULL) {
  check_own(model = "any", path = "name", strategy = "strategy?", kind = "model")
  check_model(model)
  invisible(run_python("save_model", model, as_path(path), strategy = strategy))
}

#' @rdname model_to_file
#' @export
model_to_bytes <- function(model, format = ".keras") {
  check_own(model = "any", format = "string", kind = "model")
  check_model(model)
  as.raw(run_python("model_to_bytes", model, format))
}

# Keras 2 and 3 have different model classes, and both can be saved.
check_model <- function(model, call = rlang::caller_env()) {
  if (is_python(model) && !reticulate::py_is_null_xptr(model) && reticulate::py_has_attr(model, "save")) {
    return(invisible())
  }
  abort_tfmuster(list(
    kind = "model", message = "`model` must be a Keras model.",
    found = paste("an object of class", class(model)[1]),
    fix = "Save a model in the session that created it: other sessions can't use it.", reason = "not-a-model"
  ), call)
}

#' @rdname model_to_file
#' @export
model_from_bytes <- function(data) {
  check_own(data = "bytes", kind = "model")
  run_python("model_from_bytes", data)
}
