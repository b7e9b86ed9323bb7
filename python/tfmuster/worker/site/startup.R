# Prepare the R of a worker before its program and its profiles. R sources this file because R_TESTS names it,
# also with --vanilla. R processes that the worker starts are not prepared.
local({
  site <- dirname(Sys.getenv("R_TESTS"))
  Sys.unsetenv("R_TESTS")
  process <- as.character(Sys.getpid())
  if (!Sys.getenv("TFMUSTER_PROCESS") %in% c("", process)) {
    return(invisible())
  }
  Sys.setenv(TFMUSTER_PROCESS = process)

  prepare <- function() {
    seed <- suppressWarnings(as.integer(Sys.getenv("TFMUSTER_SEED")))
    if (!is.na(seed)) set.seed(seed)
    # tfruns names a run by the second, so workers that look at the same time would share a directory. As with
    # models, only the chief's run stays.
    if (Sys.getenv("TFMUSTER_IS_CHIEF") == "0") {
      options(tfruns.runs_dir = file.path(tempdir(), "runs"))
    }
  }

  replace <- function(name, value, namespace) {
    unlockBinding(name, namespace)
    assign(name, value, envir = namespace)
    lockBinding(name, namespace)
  }

  # keras3 registers a function for the import of Keras, which starts TensorFlow. If Keras is already imported,
  # reticulate runs the function immediately, and TensorFlow can no longer join a cluster.
  postpones <- function(module) {
    code <- "getattr(__import__('sys').modules.get('tfmuster.worker.reticulate'), 'note', lambda module: False)"
    isTRUE(reticulate::py_to_r(reticulate::py_eval(code, convert = FALSE)(module)))
  }
  hold <- function(...) {
    namespace <- asNamespace("reticulate")
    stock <- namespace$py_register_load_hook
    if (is.null(stock)) {
      return()
    }
    register <- function(module, hook) {
      held <- reticulate::py_available() && postpones(module)
      if (held) setHook(paste("reticulate", module, "load", sep = "::"), hook) else stock(module, hook)
      invisible()
    }
    replace("py_register_load_hook", register, namespace)
  }
  setHook(packageEvent("reticulate", "onLoad"), hold)

  # Only the chief writes a model's files. keras3 looks for an existing file first, which the chief may have
  # made a moment ago, and writes a configuration without Python, where tfmuster chooses the path.
  writes <- function(model = NULL) {
    code <- paste(
      "lambda model: (lambda info: info is None or info.is_chief(info.PROCESS.strategy if model is None",
      "else getattr(model, '_distribute_strategy', None)))",
      "(__import__('sys').modules.get('tfmuster.keras_compat.process'))"
    )
    isTRUE(reticulate::py_to_r(reticulate::py_eval(code, convert = FALSE)(model)))
  }
  write_on_chief <- function(...) {
    namespace <- asNamespace("keras3")
    confirm <- namespace$confirm_overwrite
    save_config <- namespace$save_model_config
    if (!is.null(confirm)) {
      asks <- function(filepath, overwrite) if (writes()) confirm(filepath, overwrite) else overwrite
      replace("confirm_overwrite", asks, namespace)
    }
    if (!is.null(save_config)) {
      saves <- function(model, ...) if (writes(model)) save_config(model, ...) else invisible(model)
      replace("save_model_config", saves, namespace)
    }
  }
  setHook(packageEvent("keras3", "onLoad"), write_on_chief)

  # Note the error that ends the program, with its backtrace. This handler is called for an error that nothing
  # catches, before R prints it, and changes nothing. With options(error =), R would not halt by itself.
  note <- NULL
  noting <- FALSE
  note_error <- function(condition) {
    if (noting) {
      return()
    }
    noting <<- TRUE
    frame <- sys.nframe()
    tryCatch(
      {
        if (is.null(note)) note <<- source(file.path(site, "failure.R"), local = TRUE)$value
        suppressWarnings(note(condition, frame))
      },
      error = function(e) NULL
    )
    noting <<- FALSE
  }
  if (!interactive() && getRversion() >= "4.0.0") globalCallingHandlers(error = note_error)

  if (Sys.getenv("TFMUSTER_WARM") == "") {
    return(prepare())
  }
  # A spare process (tfmuster.worker.warm). The last thing that R does before its program is to call .First.sys.
  start <- .First.sys
  replace(".First.sys", function() {
    start()
    Sys.setenv(TFMUSTER_WARM = "R")
    # The script that calls functions needs this package in any case.
    own <- system.file("worker.R", package = "tfmuster")
    if (paste0("--file=", own) %in% commandArgs()) try(asNamespace("tfmuster")$python_bridge(), silent = TRUE)
    more <- as.character(reticulate::import("tfmuster.worker.warm")$wait_in_r())
    prepare()
    if (length(more)) {
      given <- commandArgs
      replace("commandArgs", function(trailingOnly = FALSE) {
        c(given(trailingOnly), if (!trailingOnly && !"--args" %in% given()) "--args", more)
      }, baseenv())
    }
  }, baseenv())
  Sys.unsetenv("TFMUSTER_WARM")
})
