# The recipes of vignette("beside-other-packages"), with the packages that are here.

page <- normalizePath(test_path("../../vignettes/beside-other-packages.Rmd"), mustWork = FALSE)

# The lines of a chunk.
recipe <- function(label) {
  skip_if_not(file.exists(page), "a package without the sources of its vignettes")
  lines <- readLines(page)
  begin <- which(lines == sprintf("```{r %s}", label))
  stopifnot(length(begin) == 1)
  lines[(begin + 1):(begin + which(lines[-seq_len(begin)] == "```")[1] - 1)]
}

# Run the recipe of a package, and then `code`, in an R of its own.
run_recipe <- function(package, ..., code) {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  # It is loaded only where the recipe runs.
  skip_if_not(length(find.package(package, quiet = TRUE)) > 0, paste(package, "is not installed"))
  withr::local_dir(withr::local_tempdir())
  run_r(c(recipe("train"), recipe(package), code))
}

for (package in c("callr", "future", "mirai", "recipes")) {
  test_that(paste("launch() goes with", package), {
    run <- run_recipe(package, code = "cat('epochs:', nrow(as.data.frame(history)), '\\n')")
    rows <- if (package == "recipes") 2 else 4
    expect_match(run$output, sprintf("^epochs: %d", rows), all = FALSE)
  })
}

test_that("a Shiny app follows a run", {
  run <- run_recipe("shiny", code = c(
    "shiny::testServer(server, {",
    "  session$setInputs(train = 1)",
    "  repeat {",
    "    shown <- output$losses",
    "    if (run_status(run())$state == 'done') break",
    "    Sys.sleep(1)",
    "    session$elapse(1000)",
    "  }",
    "  session$elapse(1000)",
    "  cat('shown:', grepl('loss', output$losses), run_status(run())$state, '\\n')",
    "})"
  ))
  expect_match(run$output, "^shown: TRUE done", all = FALSE)
})

test_that("a run is a target", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  withr::local_dir(withr::local_tempdir())
  writeLines(c(recipe("train"), recipe("targets")), "_targets.R")
  if (rlang::is_installed("targets")) {
    run <- run_r(c("targets::tar_make()", "cat(nrow(targets::tar_read(losses)), 'rows')"))
    expect_match(run$output, "6 rows", all = FALSE)
  } else {
    # What targets does: each target in a session of its own, its value in a file.
    steps <- c(
      "tar_target <- function(name, command) {",
      "  for (file in list.files(pattern = '[.]rds$')) {",
      "    assign(sub('[.]rds$', '', file), readRDS(file), globalenv())",
      "  }",
      "  name <- as.character(substitute(name))",
      "  if (name == Sys.getenv('TARGET')) saveRDS(command, paste0(name, '.rds'))",
      "}",
      "expressions <- Filter(function(x) !identical(x[[1]], quote(library)), parse('_targets.R'))",
      "for (each in expressions) eval(each, globalenv())"
    )
    for (name in c("epochs", "run", "losses")) {
      made <- run_r(steps, env = c(TARGET = name))
      expect_equal(made$status, 0, info = toString(made$output))
    }
    expect_equal(dim(readRDS("losses.rds")), c(6, 4))
    expect_s3_class(readRDS("run.rds"), "tfmuster_run")
  }
})
