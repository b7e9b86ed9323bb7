"""What `make test` leaves to `make test-all`: the marker `rest`.

`make test` runs what is quick, and of what takes minutes one job of each kind with its main failure.
"""

from __future__ import annotations

#: Beginnings of the names of tests: of whole folders, of files, and of tests.
REST = (
    "tests/python/engines/",
    *(
        f"tests/python/project/test_{name}.py"
        for name in (
            *("docker", "documents", "examples", "export_page", "gallery", "own_data_page", "packaging"),
            *("python_examples", "setup", "site", "task_pages"),
        )
    ),
    *(
        f"tests/python/jobs/test_{name}.py"
        for name in (
            *("batch", "collectives", "gathers", "jax", "join", "notebook", "one_server", "port_guard"),
            *("preemption", "r_scripts", "rendezvous", "rendezvous_flood", "rendezvous_network"),
            *("rented_machines", "restarts", "several_fits", "sum_bits", "supervisor", "tuning"),
            *("unattended", "warm", "warm_workers"),
        )
    ),
    *(
        f"tests/python/keras/test_{name}.py"
        for name in (
            *("alone", "checkpoint_owner", "checkpoints", "executions", "file_batches", "gradient_dtypes"),
            *("keras_compat", "model_parity", "own_rows", "parameter_server", "python_data"),
            *("row_selection", "saving", "stalls", "strategies", "strategy_table", "unaware_programs"),
        )
    ),
    "tests/python/keras/own_tests/",
    "tests/testthat/test-recipes.R",
    "tests/python/keras/differential/test_differential.py::test_same_as_one_process[4_workers_",
)
#: What of it is run all the same.
CHOSEN = (
    "tests/python/engines/mpi/test_launch.py::test_on_this_machine",
    "tests/python/engines/mpi/test_launch.py::test_a_failure_is_named_and_ends_all",
    "tests/python/engines/spark/test_spark.py::TestOneSession::test_two_jobs_one_after_the_other",
    "tests/python/engines/spark/test_spark.py::TestOneSession::test_a_failing_task_is_the_first_and_ends_the_others",
    "tests/python/engines/ssh/test_ssh.py::TestFourHosts::test_mnist_is_trained",
    "tests/python/engines/ssh/test_ssh.py::TestFourHosts::test_how_a_worker_ended_is_known_here",
    "tests/python/jobs/test_jax.py::test_data_parallel_has_the_numbers_of_one_process",
    "tests/python/jobs/test_jax.py::test_the_first_failure_is_named[raise",
    "tests/python/jobs/test_port_guard.py::test_another_user_of_this_machine_gets_nothing[gate]",
    "tests/python/jobs/test_port_guard.py::test_tensorflow_starts_when_the_chief_listens",
    "tests/python/jobs/test_preemption.py::test_a_signal_writes_a_checkpoint_and_the_job_resumes_there[launcher-1-epochs-2]",
    "tests/python/jobs/test_preemption.py::test_what_does_not_fit_is_named",
    "tests/python/jobs/test_rendezvous.py::test_all_arrive",
    "tests/python/jobs/test_rendezvous.py::test_one_missing",
    "tests/python/jobs/test_restarts.py::test_all_start_again_in_the_same_run",
    "tests/python/jobs/test_restarts.py::test_bitwise_equal",
    "tests/python/jobs/test_supervisor.py::test_the_first_failure_is_shown_last_and_ends_the_job",
    "tests/python/keras/test_parameter_server.py::test_synchronous_updates_equal_one_process",
    "tests/python/keras/test_parameter_server.py::test_a_lost_worker_is_done_without",
    "tests/python/keras/test_stalls.py::test_a_worker_that_sleeps_is_named_with_its_stack",
    "tests/python/keras/test_unaware_programs.py",
)


def left(name: str) -> bool:
    """Whether `make test` leaves out a test with this name."""
    return name.startswith(REST) and not name.startswith(CHOSEN)


def unknown(names: list[str]) -> list[str]:
    """What is listed here of tests that do not exist, if these are all of them."""
    return [each for each in (*REST, *CHOSEN) if not any(name.startswith(each) for name in names)]
