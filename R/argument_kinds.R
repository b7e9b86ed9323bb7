# The kinds of values that arguments take: what check_arguments() says of each, and how it tells. `?` after a
# kind, as in "flag?", is the kind or NULL.

is_one <- function(x) length(x) == 1 && !is.na(x)
is_whole <- function(x, from) is_number(x) && x == trunc(x) && x >= from
is_text <- function(x) is.character(x) && is_one(x)
is_number <- function(x) is.numeric(x) && is_one(x)
is_positive <- function(x) is_number(x) && x > 0
is_fraction <- function(x) is_number(x) && x >= 0 && x < 1
is_flag <- function(x) is.logical(x) && is_one(x)
is_plain_list <- function(x) is.list(x) && !is.object(x)
is_values <- function(x) is.atomic(x) || is_plain_list(x)
is_name <- function(x) is.null(x) || is_text(x)
is_paths <- function(x) is.character(x) && length(x) && !anyNA(x)
is_strings <- function(x) is.null(x) || (is.character(x) && !anyNA(x))
is_limit <- function(x) is.null(x) || (is_number(x) && x >= 0 && x < 1e9)
is_seconds <- function(x) is.null(x) || is_positive(x)
is_seed <- function(x) is.null(x) || (is_whole(x, 0) && x <= .Machine$integer.max)
is_port <- function(x) is_whole(x, 0) && x <= 65535
is_size <- function(x) is.numeric(x) && length(x) == 2 && is_whole(x[[1]], 1) && is_whole(x[[2]], 1)
is_verification <- function(x) is.null(x) || (is_text(x) && x %in% c("auto", "always", "never"))
is_steps <- function(x) is_whole(x, 1) || identical(x, "epoch")
is_variables <- function(x) {
  single <- vapply(as.list(x), function(each) is.atomic(each) && is_one(each), TRUE)
  !length(x) || (rlang::is_named(x) && all(single))
}
is_script <- function(x) is.function(x) || is_text(x)
is_features <- function(x) is.list(x) && rlang::is_named(x)
is_examples <- function(x) is_python(x) || (is_plain_list(x) && length(x) %in% 2:3)
is_source <- function(x) is_text(x) || is_python(x) || is_plain_list(x)
is_strategy <- function(x) is_python(x) && reticulate::py_has_attr(x, "extended")
is_model <- function(x) is_python(x) && reticulate::py_has_attr(x, "get_weights")
is_bytes <- function(x) is.raw(x) || is_text(x) || inherits(x, "python.builtin.bytes")

argument_kinds <- list(
  flag = list(says = "TRUE or FALSE", is = is_flag),
  verbosity = list(says = "TRUE, FALSE or 2", is = function(x) is_flag(x) || is_whole(x, 0)),
  name = list(says = "one string", is = is_name),
  string = list(says = "one string", is = is_text),
  strings = list(says = "strings", is = is_strings),
  paths = list(says = "paths", is = is_paths),
  values = list(says = "a vector or a list of values", is = is_values),
  any = list(says = "a value", is = function(x) TRUE),
  count = list(says = "a whole number of at least 1", is = function(x) is.null(x) || is_whole(x, 1)),
  positive = list(says = "a whole number of at least 1", is = function(x) is_whole(x, 1)),
  number = list(says = "a whole number of at least 0", is = function(x) is_whole(x, 0)),
  # Python says what is wrong with a number, as in Python.
  integer = list(says = "a whole number", is = is_number),
  share = list(says = "a whole number of at least 0", is = function(x) is.null(x) || is_whole(x, 0)),
  seed = list(says = "a whole number from 0 to 2147483647", is = is_seed),
  port = list(says = "a port, from 0 to 65535", is = is_port),
  size = list(says = "two whole numbers, height and width", is = is_size),
  fraction = list(says = "a number from 0 to less than 1", is = is_fraction),
  rate = list(says = "a positive number", is = is_positive),
  duration = list(says = "a positive number of seconds", is = is_positive),
  seconds = list(says = "a positive number of seconds", is = is_seconds),
  limit = list(says = "a number of seconds, or 0 for no limit", is = is_limit),
  steps = list(says = "\"epoch\" or a whole number of steps", is = is_steps),
  verification = list(says = "one of auto, always, never", is = is_verification),
  variables = list(says = "strings with names, such as c(OMP_NUM_THREADS = \"1\")", is = is_variables),
  addresses = list(says = "addresses, such as \"node1:2222\"", is = is_values),
  cluster = list(says = "an object from cluster_spec()", is = function(x) inherits(x, "tfmuster.Cluster")),
  task = list(says = "an object from cluster_task()", is = function(x) inherits(x, "tfmuster.Task")),
  source = list(says = "a file, a text, or an object from cluster_spec()", is = is_source),
  script = list(says = "the path of one script, a command, or a function", is = is_script),
  fn = list(says = "a function", is = is.function),
  strategy = list(says = "a strategy, from strategy()", is = is_strategy),
  strategy_or_name = list(
    says = "a strategy, from strategy(), or its name", is = function(x) is_text(x) || is_strategy(x)
  ),
  model = list(says = "a Keras model", is = is_model),
  bytes = list(says = "the bytes from model_to_bytes(), or base64 text of them", is = is_bytes),
  examples = list(says = "list(x, y), or a dataset", is = is_examples),
  reader = list(says = "a reader, such as csv_rows(\"y\")", is = function(x) is_python(x)),
  features = list(says = "a named list of features", is = is_features)
)
