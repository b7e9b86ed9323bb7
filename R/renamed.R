# Names that other packages have, too, and names of earlier versions.

#' Functions with new names
#'
#' The old names keep working in this version, with one notice each in a session.
#'
#' @inheritParams model_to_file
#' @inheritParams callback_checkpoint
#' @return What the function with the new name returns.
#' @name renamed
#' @keywords internal
#' @examplesIf tfmuster_available()
#' model <- mnist_model("softmax")
#' save_model(model, tempfile(fileext = ".keras"))
#' callbacks <- list(checkpoint_callback(tempfile()), tensorboard_callback(tempfile()))
#' train_mnist("softmax", synthetic(train = 640, test = 64), epochs = 1, callbacks = callbacks)
NULL

#' @rdname renamed
#' @export
save_model <- function(model, path = NULL, strategy = NULL) {
  tell_renamed("save_model", "model_to_file")
  model_to_file(model, path, strategy)
}

#' @rdname renamed
#' @export
checkpoint_callback <- function(folder = NULL, every = "epoch", keep = 2) {
  tell_renamed("checkpoint_callback", "callback_checkpoint")
  callback_checkpoint(folder, every, keep)
}

#' @rdname renamed
#' @export
tensorboard_callback <- function(folder = NULL) {
  tell_renamed("tensorboard_callback", "callback_tensorboard")
  callback_tensorboard(folder)
}

tell_renamed <- function(old, new) {
  cli::cli_inform(
    c("!" = "{.fn {old}} is now called {.fn {new}}."),
    class = "tfmuster_renamed", .frequency = "once", .frequency_id = paste0("tfmuster_", old)
  )
}

# Exported names that must not mask those of keras3, tensorflow and generics. Packages that are attached later
# mask them, as R does.
shared_names <- c("save_model", "evaluate", "callback_tensorboard")

# Remove from the attached package what another attached package has. `tfmuster::` still finds it.
give_way <- function(attached = as.environment("package:tfmuster"), search = base::search()) {
  others <- setdiff(grep("^package:", search, value = TRUE), "package:tfmuster")
  taken <- function(name) any(vapply(others, function(other) exists(name, other, inherits = FALSE), TRUE))
  rm(list = Filter(taken, intersect(shared_names, ls(attached))), envir = attached)
}
