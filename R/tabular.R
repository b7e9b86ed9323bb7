# Formulas and data frames with factors. What a model was fitted to first is kept beside the model, as data:
# the formula as text, the levels of each factor, the name of the response and, if it is a factor, its levels.

# Returns list(x, y, known, classes), in which a table has become a matrix, and its response the labels.
# `classes`: the levels of labels that are a factor. `first`: whether a model that knows no table may learn it
# from this one, to be remembered after the training.
as_table <- function(model, x, y = NULL, data = NULL, first = FALSE, known = known_table(model, call),
                     call = rlang::caller_env()) {
  table <- NULL
  if (rlang::is_formula(x)) {
    check_table(data, y, call)
    table <- data
    known <- learned_table(known, x, table, first, call)
  } else if (is.data.frame(x) && (!is.null(known$formula) || has_levels(x))) {
    table <- x
    known <- learned_table(known, stats::reformulate(quote_names(x)), table, first, call)
  }
  classes <- NULL
  y <- only_column(y)
  if (is.factor(y)) {
    if (first) known$classes <- known$classes %||% levels(y)
    classes <- known$classes
    if (!is.null(known$classes)) y <- codes_of(y, known$classes, "y", call)
  }
  if (!is.null(table)) {
    if (is.null(y)) {
      y <- response_of(known, table, call)
      classes <- known$classes
    }
    x <- design_of(known, table, call)
  }
  list(x = x, y = y, known = known, classes = classes)
}

learned_table <- function(known, formula, data, first, call) {
  if (!is.null(known$formula)) {
    return(known)
  }
  if (first) new_table(formula, data, call) else abort_unfitted(call)
}

check_table <- function(data, y, call) {
  if (!is.data.frame(data)) {
    abort_data(
      "A formula needs a data frame with its columns.", paste("`data`:", in_words(data)),
      "Write fit(model, y ~ ., data = frame).", "no-table", call
    )
  }
  if (!is.null(y)) {
    abort_data(
      "A formula names the labels on its left.", paste("`y`:", in_words(y)), "Omit `y`.", "no-table", call
    )
  }
}

abort_unfitted <- function(call) {
  abort_data(
    "Columns that are no numbers need the levels that the model was fitted to.",
    "a model that was fitted to no such table in this session",
    "Fit it with fit(model, y ~ ., data = frame), or convert the columns with model.matrix().",
    "no-table", call
  )
}

has_levels <- function(frame) {
  any(vapply(frame, function(column) is.factor(column) || is.character(column), logical(1)))
}

quote_names <- function(frame) paste0("`", names(frame), "`")

known_table <- function(model, call = rlang::caller_env()) {
  bytes <- run_python("table_of", model, call = call)
  if (!is.null(bytes)) unserialize(as.raw(bytes))
}

remember_table <- function(model, table, call = rlang::caller_env()) {
  if (!is.null(table)) run_python("table_of", model, as.raw(serialize(table, NULL)), call = call)
}

new_table <- function(formula, data, call) {
  terms <- tryCatch(
    stats::terms(formula, data = data),
    error = function(e) abort_formula(formula, conditionMessage(e), call)
  )
  unknown <- setdiff(all.vars(terms), names(data))
  if (length(unknown)) abort_formula(formula, sprintf("no column `%s`", unknown[1]), call)
  environment(terms) <- globalenv()
  frame <- frame_of(terms, data, NULL, call)
  if (!identical(attr(attr(frame, "terms"), "predvars"), attr(terms, "variables"))) {
    abort_formula(formula, "a term that depends on all rows, such as scale() or poly()", call)
  }
  response <- stats::model.response(frame)
  list(
    formula = deparse1(stats::formula(terms)),
    levels = stats::.getXlevels(stats::delete.response(terms), frame),
    response = if (attr(terms, "response")) deparse1(formula[[2]]),
    classes = if (is.character(response)) sort(unique(response)) else levels(response)
  )
}

abort_formula <- function(formula, found, call) {
  abort_data(
    "A formula must consist of columns of the data frame.", paste0(found, ", in ", deparse1(formula)),
    "Compute other columns before, with the same numbers for new data.", "formula", call
  )
}

frame_of <- function(terms, data, levels, call) {
  tryCatch(
    stats::model.frame(terms, data, na.action = stats::na.pass, xlev = levels),
    error = function(e) abort_formula(stats::formula(terms), conditionMessage(e), call)
  )
}

terms_of <- function(table) stats::terms(stats::as.formula(table$formula, globalenv()))

# The columns of numbers of a table: a factor has one for each level but the first, as in nnet.
design_of <- function(table, data, call) {
  terms <- stats::delete.response(terms_of(table))
  needed <- all.vars(terms)
  missing <- setdiff(needed, names(data))
  if (length(missing)) {
    abort_data(
      "A data frame must have the columns of the data frame that the model was fitted to.",
      paste0("no `", missing, "`", collapse = ", "), paste("The formula is", table$formula), "columns", call
    )
  }
  for (name in intersect(names(table$levels), names(data))) {
    check_levels(data[[name]], table$levels[[name]], name, call)
  }
  frame <- frame_of(terms, data, table$levels, call)
  contrasts <- lapply(table$levels, function(levels) "contr.treatment")
  design <- stats::model.matrix(terms, frame, contrasts.arg = if (length(contrasts)) contrasts)
  design <- design[, colnames(design) != "(Intercept)", drop = FALSE]
  attributes(design) <- list(dim = dim(design))
  design
}

response_of <- function(table, data, call) {
  terms <- terms_of(table)
  if (is.null(table$response) || !all(all.vars(terms[[2]]) %in% names(data))) {
    return(NULL)
  }
  response <- eval(terms[[2]], data, globalenv())
  if (is.null(table$classes)) response else codes_of(response, table$classes, table$response, call)
}

codes_of <- function(values, classes, name, call) {
  check_levels(values, classes, name, call)
  match(as.character(values), classes) - 1L
}

check_levels <- function(values, levels, name, call) {
  unknown <- setdiff(unique(as.character(values[!is.na(values)])), levels)
  if (length(unknown)) {
    abort_data(
      "Every level must be one that the model was fitted to.",
      sprintf("%s in `%s`", in_quotes(utils::head(unknown, 3)), name),
      paste("Its levels are", in_quotes(levels)), "level", call
    )
  }
}

in_quotes <- function(levels) paste(encodeString(levels, quote = "\""), collapse = ", ")

# A factor of the class with the highest score in each row.
as_classes <- function(model, scores, call) {
  classes <- known_table(model, call)$classes
  columns <- if (length(dim(scores)) == 2) ncol(scores) else 0
  if (is.null(classes) || !max(columns, 2) == length(classes) || columns == 0) {
    found <- sprintf("%d levels, and scores of %s", length(classes), in_words(scores))
    abort_data(
      "Classes need a model with an output for each level of the factor that it was fitted to.",
      if (is.null(classes)) "a model that was fitted to no factor" else found,
      "Fit it to a factor, fit(model, species ~ ., data = frame).", "classes", call
    )
  }
  if (columns > 1) {
    return(factor(classes[max.col(scores, "first")], classes))
  }
  logits <- isTRUE(tryCatch(model$loss$from_logits, error = function(e) FALSE))
  factor(classes[1 + (scores[, 1] > if (logits) 0 else 0.5)], classes)
}

# Whether a table of another session can be used: its formula is evaluated, so it must not call functions.
is_safe_table <- function(table) {
  operators <- c("~", "+", "-", ":", "*", "^", "(", "%in%", "/")
  formula <- tryCatch(str2lang(table$formula %||% "~ 1"), error = function(e) NULL)
  names <- all.names(formula)
  !is.null(formula) && all(setdiff(names, operators) %in% all.vars(formula))
}
