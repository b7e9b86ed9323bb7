# Prepare the R of a worker before its program and its profiles. R sources this file because R_TESTS names it,
# also with --vanilla. R processes that the worker starts are not prepared.
local({
  Sys.unsetenv("R_TESTS")
  process <- as.character(Sys.getpid())
  if (!Sys.getenv("TFMUSTER_PROCESS") %in% c("", process)) {
    return(invisible())
  }
  Sys.setenv(TFMUSTER_PROCESS = process)
  seed <- suppressWarnings(as.integer(Sys.getenv("TFMUSTER_SEED")))
  if (!is.na(seed)) set.seed(seed)

  # tfruns names a run by the second, so workers that look at the same time would share a directory. As with
  # models, only the chief's run stays.
  if (Sys.getenv("TFMUSTER_IS_CHIEF") == "0") {
    options(tfruns.runs_dir = file.path(tempdir(), "runs"))
  }

  # keras3 registers a function for the import of Keras, which starts TensorFlow. If Keras is already imported,
  # reticulate runs the function immediately, and TensorFlow can no longer join a cluster.
  note <- function(module) {
    code <- "getattr(__import__('sys').modules.get('tfmuster.worker.load_hooks'), 'note', lambda module: False)"
    isTRUE(reticulate::py_to_r(reticulate::py_eval(code, convert = FALSE)(module)))
  }
  hold <- function(...) {
    namespace <- asNamespace("reticulate")
    stock <- namespace$py_register_load_hook
    if (is.null(stock)) {
      return()
    }
    register <- function(module, hook) {
      held <- reticulate::py_available() && note(module)
      if (held) setHook(paste("reticulate", module, "load", sep = "::"), hook) else stock(module, hook)
      invisible()
    }
    unlockBinding("py_register_load_hook", namespace)
    assign("py_register_load_hook", register, envir = namespace)
    lockBinding("py_register_load_hook", namespace)
  }
  setHook(packageEvent("reticulate", "onLoad"), hold)
})
