# Find the objects that a function uses from its session, with the package globals, as future does. This file
# decides where each object must be on the worker, so that the function finds it again.

large_bytes <- 500e6

# Returns list(fn, globals, packages, values): `globals` go to the worker's global environment, `values` has
# all objects by name.
pack_function <- function(fn, globals = TRUE, call = rlang::caller_env()) {
  home <- environment(fn) %||% globalenv()
  found <- if (isFALSE(globals)) list() else globals::globalsOf(fn, envir = home, mustExist = FALSE)
  # If an object does not exist, the worker reports it: NULL in its place would change the program.
  exists <- !vapply(attr(found, "where"), is.null, logical(1))
  where <- attr(found, "where")[exists]
  found <- rlang::set_names(lapply(which(exists), function(i) found[[i]]), names(found)[exists])
  is_package <- vapply(where, is_package_environment, logical(1))
  packages <- unique(unlist(lapply(where[is_package], attached_package)))
  found <- found[!is_package]
  in_global <- vapply(where[!is_package], identical, logical(1), globalenv())
  more <- asked_for(globals, home, call)
  local <- c(found[!in_global], more)
  local <- local[!duplicated(names(local), fromLast = TRUE)]
  list(
    fn = with_locals(fn, home, local), globals = found[in_global], packages = packages,
    values = c(found[in_global], local)
  )
}

is_package_environment <- function(env) {
  identical(env, baseenv()) || isNamespace(env) || !is.null(attached_package(env))
}

attached_package <- function(env) {
  name <- attr(env, "name")
  if (is.character(name) && startsWith(name, "package:")) sub("package:", "", name, fixed = TRUE)
}

asked_for <- function(globals, home, call) {
  if (is.list(globals)) {
    return(globals)
  }
  if (!is.character(globals)) {
    return(list())
  }
  missing <- globals[!vapply(globals, exists, logical(1), envir = home)]
  if (length(missing)) {
    abort_tfmuster(list(
      kind = "launch", message = "Each name in `globals` must be the name of an object.",
      found = paste0("no object ", paste0("`", missing, "`", collapse = ", ")),
      fix = "Create it first, or pass its value: globals = list(name = value).", reason = "globals"
    ), call)
  }
  mget(globals, envir = home, inherits = TRUE)
}

# A function created in another function would be sent with everything in there. Give it, and the functions
# created in the same place, an environment with only the objects that it uses.
with_locals <- function(fn, home, local) {
  if (is.primitive(fn) || (is_shared_environment(home) && !length(local))) {
    return(fn)
  }
  top <- topenv(home)
  own <- new.env(parent = top)
  move <- function(value) {
    if (rlang::is_closure(value) && is_between(environment(value), home, top)) {
      environment(value) <- own
      value <- utils::removeSource(value)
    }
    value
  }
  list2env(lapply(local, move), own)
  environment(fn) <- own
  utils::removeSource(fn)
}

# Whether `env` is on the chain of parents from `home` to `top`, without `top`.
is_between <- function(env, home, top) {
  while (!identical(home, top) && !identical(home, emptyenv())) {
    if (identical(env, home)) {
      return(TRUE)
    }
    home <- parent.env(home)
  }
  FALSE
}

check_travels <- function(values, call = rlang::caller_env()) {
  labels <- names(values) %||% rep("", length(values))
  labels[!nzchar(labels)] <- paste("argument", seq_along(values))[!nzchar(labels)]
  for (i in seq_along(values)) {
    kind <- stays_here(values[[i]])
    if (!is.null(kind)) {
      abort_tfmuster(list(
        kind = "launch", message = "Python objects and connections can't be sent to another process.",
        found = sprintf("`%s` is or contains one: %s", labels[i], kind),
        fix = paste(
          "Create it inside the function. Send a model with model_to_bytes(), and load it there with",
          "model_from_bytes(); send an array as an R array."
        ),
        reason = "python-object"
      ), call)
    }
    bytes <- as.numeric(utils::object.size(values[[i]]))
    if (bytes > large_bytes) {
      warn_tfmuster(sprintf(
        paste(
          "`%s` has %.1f GB, which every worker reads and keeps. Let each worker read its own rows from a",
          "file instead, and train on them with fit(model, own_rows(x, y))."
        ),
        labels[i], bytes / 1e9
      ), call)
    }
  }
}

# The class of the first Python object or connection in a value, or NULL.
stays_here <- function(x, depth = 0) {
  if (inherits(x, "python.builtin.object") || inherits(x, "connection")) {
    return(class(x)[1])
  }
  if (depth > 6) {
    return(NULL)
  }
  for (part in parts_of(x)) {
    found <- if (!is.atomic(part)) stays_here(part, depth + 1)
    if (!is.null(found)) {
      return(found)
    }
  }
  NULL
}

# The parts of a value that are saved with it.
parts_of <- function(x) {
  home <- if (rlang::is_closure(x)) environment(x) else if (is.environment(x)) x
  if (is.list(x)) {
    unclass(x)
  } else if (!is.null(home) && !is_shared_environment(home)) {
    as.list.environment(home, all.names = TRUE)
  }
}

is_shared_environment <- function(env) identical(env, globalenv()) || is_package_environment(env)
