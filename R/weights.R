# Weights of rows and of classes. Keras gets them as it uses them: it ignores a class whose name is text.

# Convert weights of rows: a vector, or a list of them for several outputs.
as_weights <- function(weights, call = rlang::caller_env()) {
  if (is.null(weights)) {
    return(NULL)
  }
  if (is.data.frame(weights)) weights <- as_matrix(weights, call)
  if (is.list(weights)) {
    return(lapply(weights, as_weights, call = call))
  }
  as_numbers(weights, "Weights", call)
}

# `x` and `weights`: converted.
check_weights <- function(weights, x, what, call) {
  if (length(unique(c(rows_of(x), rows_of(weights)))) > 1) {
    abort_data(
      paste0("There must be one weight for each row of the data", what, "."),
      paste0(in_words(x), " as data, ", in_words(weights), " as weights"),
      "Compare dim() and length() of both.", "lengths-differ", call
    )
  }
}

check_batch_weights <- function(weights, x, call) {
  if (is.null(weights) || !(is_generator(x) || is_dataset(x))) {
    return(invisible())
  }
  place <- if (is_generator(x)) {
    "Return list(x, y, weights) from the generator."
  } else {
    "Make weights the third part of the dataset's batches."
  }
  abort_data(
    "The weights of generators and datasets come with their batches.",
    paste("weights:", in_words(weights)), place,
    "batch-weights", call
  )
}

# Convert weights of classes to a Python dictionary of class numbers. `given`: the converted data, labels and
# weights of rows. `table`: from as_table().
as_class_weight <- function(weights, model, given, table, call = rlang::caller_env()) {
  is_dictionary <- is_python(weights)
  if (is_dictionary) weights <- reticulate::py_to_r(weights)
  # A subclass of Python's dictionary stays one.
  if (is_python(weights) || is.null(weights)) {
    return(weights)
  }
  values <- class_weights(weights, call)
  check_weighed(given, call)
  names <- names(weights)
  # The keys of a dictionary are class numbers, as in Python.
  classes <- if (is.null(names)) {
    seq_along(values) - 1
  } else {
    class_numbers(names, if (!is_dictionary) table, call)
  }
  check_weight_classes(classes, classes_of(given$y, table$classes), is.null(names), call)
  if (is.null(given$y)) {
    # Keras looks the labels of a dataset up in an array that ends with the last class that has a weight.
    last <- setdiff(last_class(model), seq(0, max(classes)))
    classes <- c(classes, last)
    values <- c(values, rep(1, length(last)))
  }
  reticulate::py_dict(as.list(as.integer(classes)), as.list(values))
}

# The last class of a model's outputs: one output has two classes. NULL if the outputs are not known.
last_class <- function(model) {
  outputs <- rev(known_shape(model, "output_shape"))[1]
  if (length(outputs) && !is.na(outputs)) max(outputs, 2) - 1
}

class_weights <- function(weights, call) {
  is_weight <- function(x) is_plain(x) && is_number(x) && is.finite(x) && x >= 0
  plain <- is.list(weights) || is_plain(weights)
  wrong <- if (plain) Filter(function(weight) !is_weight(weight), as.list(weights)) else list(weights)
  if (length(wrong)) {
    abort_class_weight(
      "The weight of a class must be a number of at least 0.", one_in_words(wrong[[1]]),
      "Write class_weight = c(\"0\" = 1, \"1\" = 5).", call
    )
  }
  as.numeric(unlist(weights))
}

one_in_words <- function(x) {
  if (!is.atomic(x) || length(x) != 1 || is.object(x)) {
    return(in_words(x))
  }
  if (is.character(x)) in_quotes(x) else format(x)
}

# Check that Keras can derive weights of rows from the labels. It rounds numbers, and takes the column with
# the highest number.
check_weighed <- function(given, call) {
  y <- given$y
  if (!is.null(given$sample_weight)) {
    abort_class_weight(
      "`class_weight` and `sample_weight` can't be used together.",
      paste("`sample_weight`:", in_words(given$sample_weight)),
      "Multiply the weight of each row by the weight of its class, and pass `sample_weight` only.", call
    )
  }
  if (is.list(y)) {
    abort_class_weight(
      "`class_weight` needs a model with one output.", paste("labels:", in_words(y)),
      "Pass `sample_weight`, a list of weights for each output.", call
    )
  }
  shape <- if (is.numeric(y)) dim(y)
  wide <- length(shape) == 2 && (any(y < 0) || any(abs(rowSums(y) - 1) > 1e-4))
  if (wide || length(shape) > 2 || (length(shape) == 1 && any(y != trunc(y)))) {
    abort_class_weight(
      "`class_weight` needs labels that are classes: a factor, whole numbers, or a column for each class.",
      if (length(shape) == 1) "labels with decimals" else paste("labels:", in_words(y)),
      "Pass `sample_weight`, a weight for each row.", call
    )
  }
}

# The numbers of classes with these names: of levels if the labels are a factor, or if a name is no number.
class_numbers <- function(names, table, call) {
  numbers <- suppressWarnings(as.numeric(names))
  numbers[numbers != trunc(numbers) | abs(numbers) > .Machine$integer.max] <- NA
  levels <- table$classes %||% if (anyNA(numbers)) table$known$classes
  classes <- if (is.null(levels)) numbers else match(names, levels) - 1
  wrong <- unique(names[is.na(classes)])
  if (length(wrong)) {
    abort_class_weight(
      if (is.null(levels)) {
        "The names of `class_weight` must be class numbers, which count from 0."
      } else {
        "The names of `class_weight` must be levels of the labels."
      },
      paste(if (length(wrong) > 1) "the names" else "the name", in_quotes(utils::head(wrong, 3))),
      if (is.null(levels)) {
        "Write class_weight = c(\"0\" = 1, \"1\" = 5), or use factor(y) and the names of its levels."
      } else {
        paste("The levels are", in_quotes(levels))
      },
      call
    )
  }
  twice <- names[duplicated(classes)]
  if (length(twice)) {
    abort_class_weight(
      "A class must have one weight.", paste("another weight for", in_quotes(twice[1])),
      "Remove one of them.", call
    )
  }
  classes
}

# The classes that labels can be; NULL if only Keras sees them.
classes_of <- function(y, levels) {
  shape <- shape_of(y)
  if (!is.null(levels)) {
    seq_along(levels) - 1
  } else if (length(shape) == 2 && shape[2] > 1) {
    seq_len(shape[2]) - 1
  } else if (is.numeric(y)) {
    unique(as.vector(y))
  } else if (!is.null(shape)) {
    tryCatch(as.vector(reticulate::import("numpy")$unique(y)), error = function(e) NULL)
  }
}

# `seen`: from classes_of().
check_weight_classes <- function(classes, seen, by_position, call) {
  lacking <- if (is.null(seen)) classes[classes < 0] else setdiff(classes, seen)
  labels <- sort(seen[seen >= 0])
  if (by_position && length(labels) && !setequal(labels, classes)) {
    abort_class_weight(
      "Without names, `class_weight` must have one weight for each class, from class 0.",
      sprintf("weights for class %s; the labels are %s", in_short(classes), in_short(labels)),
      "Name each weight after its class: c(\"0\" = 1, \"1\" = 5), or the levels of a factor.", call
    )
  }
  if (length(lacking)) {
    known <- if (length(labels)) paste("; the labels are", in_short(labels))
    abort_class_weight(
      "`class_weight` must name classes that the labels have.",
      paste0("a weight for class ", lacking[1], known),
      "Remove the weight. A class without rows can have one if it is a level: factor(y, levels).", call
    )
  }
}

in_short <- function(numbers) {
  paste0(paste(utils::head(numbers, 5), collapse = ", "), if (length(numbers) > 5) ", ...")
}

abort_class_weight <- function(message, found, fix, call) {
  abort_data(
    message, found, fix,
    "class-weight", call
  )
}
