#' Checkpoints from which a training goes on as if nothing had happened
#'
#' A Keras callback: pass it to `model$fit(callbacks = list(...))` on every worker. The chief writes a
#' checkpoint after so many steps or each epoch; when `fit` begins again, it resumes from the newest one that
#' is whole, in the middle of an epoch too, with the data at the place where they were. If the data come in a
#' seeded order, the final weights are those of an undisturbed run, bit for bit.
#'
#' @param folder Where to keep them. `NULL`: `checkpoints` in the run directory of the job.
#' @param every Write after so many steps, or after each `"epoch"`.
#' @param keep How many to keep, at least 2: one may be damaged.
#' @return A Python object, a Keras callback.
#' @section Errors: `tfmuster_error_checkpoint` with the fields `path` and `reason`: no folder and no job;
#'   later, from `fit`: the disk is full, or the checkpoint is of another model.
#' @export
#' @examplesIf tfmuster_available()
#' folder <- tempfile("checkpoints")
#' digits <- synthetic(train = 300, test = 100)
#' callback <- checkpoint_callback(folder)
#' result <- train_mnist("softmax", dataset = digits, epochs = 2, callbacks = list(callback))
#' list.files(folder)
checkpoint_callback <- function(folder = NULL, every = "epoch", keep = 2) {
  check_arguments(list(folder = folder), c(folder = "name"), kind = "checkpoint")
  run_python(
    "checkpoint_callback", as_path(folder),
    every = as_steps(every), keep = as_whole(keep)
  )
}

# A number of steps or the word "epoch"; anything else is left for the core to refuse.
as_steps <- function(x) if (is.character(x)) x else as_whole(x)
