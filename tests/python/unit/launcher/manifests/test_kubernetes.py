"""What ``tfmuster manifest kubernetes`` prints: valid, and with nothing in it that was not meant to be."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow.training import models as kubeflow
from kubeflow_trainer_api.models import JobsetV1alpha2JobSet

from support.launching import tfmuster
from support.pod_jobs import ANY_TEXT, FULL, check_nothing_is_injected, container_of
from tfmuster.errors import LaunchError, TfmusterError
from tfmuster.launcher.manifests.kubernetes import indexed_job, job_set, tf_job, to_yaml
from tfmuster.launcher.manifests.pod_job import PodJob

HOSTILE = [
    "no",
    "null",
    "0x1F",
    "1e3",
    "2001-01-01",
    "12:30:45",
    "=",
    "~",
    "- a: b",
    "{a: b}",
    "*alias",
    "&anchor",
    "!!python/object/apply:os.system [id]",
    "'\"",
    "a\n---\nkind: Secret",
    '"\nkind: Secret\n#',
    "#",
    "\u2028\u0085\ufeff\U0001f600",
    "$(TFMUSTER_TOKEN)",
    "$$(TFMUSTER_TOKEN)",
    "$$$(X)$",
    "\ttab\r\n",
    "\\",
    "\x1b[31m\x7f",
    "{{ .Values }} {% raw %}",
]


def schema_of(model: str) -> dict[str, Any]:
    """The JSON schema of one of Kubeflow's own models; what belongs to Kubernetes is left open."""
    if model.startswith("dict(str, "):
        return {"type": "object", "additionalProperties": schema_of(model[len("dict(str, ") : -1])}
    simple = {"str": "string", "int": "integer", "bool": "boolean"}
    if model in simple:
        return {"type": simple[model]}
    if not model.startswith("Kubeflow"):
        return {}
    described = getattr(kubeflow, model)
    names = described.attribute_map
    return {
        "type": "object",
        "properties": {names[key]: schema_of(each) for key, each in described.openapi_types.items()},
        "additionalProperties": False,
    }


def validate_tf_job(document: dict[str, Any]) -> None:
    jsonschema.validate(document, schema_of("KubeflowOrgV1TFJob"))
    assert (document["apiVersion"], document["kind"]) == ("kubeflow.org/v1", "TFJob")
    for kind, replica in document["spec"]["tfReplicaSpecs"].items():
        assert kind in ("Chief", "Evaluator", "Master", "PS", "Worker")
        assert replica["restartPolicy"] in ("Always", "ExitCode", "Never", "OnFailure")
        # The pods are Kubernetes's own, and so is the check of them.
        template = {"apiVersion": "v1", "kind": "PodTemplate", "template": replica["template"]}
        kubernetes_validate.validate(template, kubernetes_validate.latest_version(), strict=True)


LATEST = kubernetes_validate.latest_version()
PLAIN: dict[str, Any] = {"ps": 0, "gpus_per_worker": 0, "env": {}, "volumes": {}}
SAVED: dict[str, Any] = {"checkpoint_volume": ("saved", "/saved"), "max_restarts": 3, "grace": 0.5}


# The schemas before 1.29 want both conditions of a rule, of which Kubernetes takes only one.
@pytest.mark.parametrize(
    ("version", "given"),
    [
        *((version, each) for version in ("1.25", LATEST) for each in ({}, PLAIN)),
        *((version, SAVED) for version in ("1.29", LATEST)),
    ],
)
def test_it_is_valid_for_kubernetes(version: str, given: dict[str, Any]) -> None:
    documents = list(yaml.safe_load_all(to_yaml(indexed_job(PodJob(**{**FULL, **given})))))
    jobs = 2 if given.get("ps", 1) else 1
    assert [each["kind"] for each in documents] == ["Service", *["Job"] * jobs, "NetworkPolicy"]
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_the_check_is_one_that_finds_mistakes() -> None:
    _, job, *_ = indexed_job(PodJob(**FULL))
    job["spec"]["template"]["spec"]["subdomian"] = "digits"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    for change in ({"replicas": "4"}, {"replica": 4}):
        document, _ = tf_job(PodJob(**FULL))
        document["spec"]["tfReplicaSpecs"]["Worker"] |= change
        with pytest.raises(jsonschema.ValidationError):
            validate_tf_job(document)


def test_a_tf_job_is_as_kubeflow_describes_it() -> None:
    document, policy = yaml.safe_load_all(to_yaml(tf_job(PodJob(**FULL))))
    validate_tf_job(document)
    kubernetes_validate.validate(policy, kubernetes_validate.latest_version(), strict=True)
    replicas = document["spec"]["tfReplicaSpecs"]
    assert {kind: replica["replicas"] for kind, replica in replicas.items()} == {"Worker": 4, "PS": 2}
    for replica in replicas.values():
        container = container_of(replica["template"])
        assert container["name"] == "tensorflow"  # the operator puts TF_CONFIG into no other
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]


def validate_job_set(document: dict[str, Any]) -> None:
    """Kubeflow's description knows all that is there, and Kubernetes's own all of the Jobs."""
    outside = copy.deepcopy(document)
    for job in outside["spec"]["replicatedJobs"]:
        template, job["template"] = job["template"], {"spec": {"template": {"metadata": {"name": "any"}}}}
        alone = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, **template}
        kubernetes_validate.validate(alone, LATEST, strict=True)
    described = JobsetV1alpha2JobSet.from_dict(outside)
    assert described is not None and described.to_dict() == outside


@pytest.mark.parametrize("given", [{}, PLAIN, SAVED])
def test_a_job_set_is_as_its_description_says(given: dict[str, Any]) -> None:
    job = PodJob(**{**FULL, **given})
    document, policy = yaml.safe_load_all(to_yaml(job_set(job)))
    validate_job_set(document)
    kubernetes_validate.validate(policy, LATEST, strict=True)
    assert (document["apiVersion"], document["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    spec = document["spec"]
    assert {
        each["name"]: each["template"]["spec"]["completions"] for each in spec["replicatedJobs"]
    } == job.roles
    assert spec["failurePolicy"]["maxRestarts"] == job.max_restarts
    # The set starts all again, so no Job starts its pods again itself.
    assert all(each["template"]["spec"]["backoffLimit"] == 0 for each in spec["replicatedJobs"])
    assert spec["network"]["subdomain"] == "digits"


def test_the_check_of_a_job_set_finds_mistakes() -> None:
    for change in ({"succesPolicy": {}}, {"failurePolicy": {"maxRestart": 3}}):
        document, _ = job_set(PodJob(**FULL))
        document["spec"] |= change
        with pytest.raises(AssertionError):
            validate_job_set(document)


def test_the_hosts_of_a_job_set_have_names_of_at_most_63_characters() -> None:
    job_set(PodJob(**{**FULL, "name": "d" * 52, "ps": 0}))
    with pytest.raises(LaunchError, match="at most 63 characters"):
        job_set(PodJob(**{**FULL, "name": "d" * 53, "ps": 0}))


def test_evicted_pods_are_replaced_if_checkpoints_have_a_volume() -> None:
    """And those that end with them. A failure counts, and wrong usage ends the Job."""
    saved = {"checkpoint_volume": ("saved", "/saved/here"), "max_restarts": 3, "grace": 45}
    _, workers, servers, _ = indexed_job(PodJob(**{**FULL, **saved}))
    for job in (workers, servers):
        template = job["spec"]["template"]["spec"]
        assert template["restartPolicy"] == "Never"
        assert template["terminationGracePeriodSeconds"] == 55
        assert template["volumes"][-1]["persistentVolumeClaim"] == {"claimName": "saved"}
        container = container_of(job["spec"]["template"])
        assert container["volumeMounts"][-1]["mountPath"] == "/saved/here"
        variables = {each["name"]: each.get("value") for each in container["env"]}
        assert variables["TFMUSTER_CHECKPOINT_DIR"] == "/saved/here/digits"
        assert variables["TFMUSTER_GRACE"] == "45"
        # Each of the six pods fails when one does.
        assert job["spec"]["backoffLimit"] == 18
        usage, evicted, ended_with_it = job["spec"]["podFailurePolicy"]["rules"]
        names = {container["name"]}
        assert {rule["onExitCodes"]["containerName"] for rule in (usage, ended_with_it)} == names
        assert (usage["action"], usage["onExitCodes"]["values"]) == ("FailJob", [2])
        assert (evicted["action"], evicted["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
        assert (ended_with_it["action"], ended_with_it["onExitCodes"]["values"]) == ("Ignore", [143])
    _, plain, *_ = indexed_job(PodJob(**FULL))
    assert plain["spec"]["backoffLimit"] == 0 and "podFailurePolicy" not in plain["spec"]


def test_what_needs_a_checkpoint_volume_is_refused_without() -> None:
    with pytest.raises(LaunchError, match="Restarts need a checkpoint volume"):
        PodJob(**{**FULL, "max_restarts": 1})
    with pytest.raises(LaunchError, match="path must be absolute"):
        PodJob(**{**FULL, "checkpoint_volume": ("saved", "here")})
    with pytest.raises(LaunchError, match="replaces pods by rules of its own"):
        tf_job(PodJob(**{**FULL, "checkpoint_volume": ("saved", "/saved")}))
    with pytest.raises(TfmusterError, match="grace must be a positive number of seconds"):
        PodJob(**{**FULL, "grace": 0})


def test_the_operator_makes_no_cluster_of_one() -> None:
    with pytest.raises(LaunchError, match="two tasks"):
        tf_job(PodJob(**{**FULL, "workers": 1, "ps": 0}))


def test_all_pods_have_the_seed_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def seeds(**given: Any) -> set[str]:
        templates = [each["spec"].get("template") for each in indexed_job(PodJob(**{**FULL, **given}))]
        variables = [container_of(template)["env"] for template in templates if template]
        return {each["value"] for pod in variables for each in pod if each["name"] == "TFMUSTER_SEED"}

    assert seeds() == {"7"}
    drawn = {name: value for name, value in FULL.items() if name != "seed"}
    assert PodJob(**drawn).seed != PodJob(**drawn).seed
    monkeypatch.setenv("TFMUSTER_SEED", "5")
    assert PodJob(**drawn).seed == 5
    for wrong in ({"seed": -1}, {"seed": True}, {"env": {"TFMUSTER_SEED": "5"}}):
        with pytest.raises(LaunchError):
            seeds(**wrong)


def test_gpus_are_for_workers_only() -> None:
    _, workers, servers, _ = indexed_job(PodJob(**FULL))
    worker, server = (container_of(job["spec"]["template"]) for job in (workers, servers))
    assert worker["resources"]["limits"] == {"memory": "2Gi", "nvidia.com/gpu": 2}
    assert server["resources"]["limits"] == {"memory": "2Gi"}
    assert {"name": "CUDA_VISIBLE_DEVICES", "value": "-1"} in server["env"]
    assert "CUDA_VISIBLE_DEVICES" not in [each["name"] for each in worker["env"]]


def test_the_service_and_the_policy_select_the_jobs_own_pods() -> None:
    service, workers, servers, policy = indexed_job(PodJob(**FULL))
    selectors = [
        service["spec"]["selector"],
        policy["spec"]["podSelector"]["matchLabels"],
        policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"],
    ]
    for job in (workers, servers):
        template = job["spec"]["template"]
        assert template["spec"]["subdomain"] == service["metadata"]["name"]
        assert all(template["metadata"]["labels"] == selector for selector in selectors)
    assert service["spec"]["clusterIP"] == "None"
    assert "NetworkPolicy" not in [each["kind"] for each in indexed_job(PodJob(**FULL, network_policy=False))]


def test_the_token_is_in_a_secret_and_never_in_the_manifest() -> None:
    for objects in (indexed_job(PodJob(**FULL)), tf_job(PodJob(**FULL))):
        assert "TFMUSTER_TOKEN" in to_yaml(objects)
    env = container_of(indexed_job(PodJob(**FULL))[1]["spec"]["template"])["env"]
    (token,) = [each for each in env if each["name"] == "TFMUSTER_TOKEN"]
    assert token["valueFrom"] == {"secretKeyRef": {"name": "digits-token", "key": "token"}}
    assert "TFMUSTER_TOKEN" not in to_yaml(indexed_job(PodJob(**{**FULL, "token_secret": None})))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_arrive_as_they_are(text: str) -> None:
    check_nothing_is_injected([text, f"--x={text}"], text)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["name", "namespace", "image", "token_secret", "env", "claim"]), ANY_TEXT)
def test_names_are_names_or_refused(field: str, text: str) -> None:
    refused_or_valid(field, text)


@pytest.mark.parametrize("field", ["name", "namespace", "image", "token_secret", "env", "claim", "path"])
@pytest.mark.parametrize(
    "text", [*HOSTILE, "", "-a", "a-", "A", "a b", "a\n", "ä", "a" * 64, "a.b-", "a..b", "../x"]
)
def test_hostile_names_are_refused(field: str, text: str) -> None:
    refused_or_valid(field, text)


def refused_or_valid(field: str, text: str) -> None:
    given: dict[str, Any] = {field: text}
    if field in ("claim", "path"):
        given = {"volumes": {text: "/data"} if field == "claim" else {"data": text}}
    elif field == "env":
        given = {"env": {text: "1"}}
    try:
        indexed_job(PodJob(**{**FULL, **given}))
    except LaunchError as error:
        assert error.fields["reason"] in ("name", "image", "secret", "env", "volume", "text")
        return
    patterns = {
        "name": r"[a-z]([a-z0-9-]*[a-z0-9])?",
        "namespace": r"[a-z]([a-z0-9-]*[a-z0-9])?",
        "image": r"[A-Za-z0-9]([\w./:@-]*[A-Za-z0-9])?",
        "token_secret": r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*",
        "env": r"[A-Za-z_][A-Za-z0-9_]*",
        "claim": r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*",
        "path": r"/[^:]*",
    }
    assert re.fullmatch(patterns[field], text, re.ASCII)


def test_a_name_with_its_index_is_a_dns_label() -> None:
    fits = {**FULL, "name": "a" * 61, "ps": 0}
    indexed_job(PodJob(**{**fits, "workers": 10}))
    for too_much in ({"workers": 11}, {"workers": 10, "ps": 1}):
        with pytest.raises(LaunchError, match="63 characters"):
            indexed_job(PodJob(**{**fits, **too_much}))
    with pytest.raises(LaunchError, match="63 characters"):
        tf_job(PodJob(**{**fits, "workers": 2}))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["Train Digits_2.py"], "train-digits-2"),
        (["/x/2nd.R"], "nd"),
        (["tfmuster", "train", "mnist", "--epochs", "1"], "train-mnist"),
        (["../ä.py"], "job"),
        (["x" * 70 + ".py"], "x" * 40),
    ],
)
def test_the_scripts_name_is_made_a_label(command: list[str], name: str) -> None:
    assert PodJob(command=command, image="i", workers=1).name == name


@pytest.mark.parametrize("variable", ["TF_CONFIG", "TFMUSTER_TOKEN", "JOB_COMPLETION_INDEX"])
def test_the_manifests_own_variables_are_not_for_others(variable: str) -> None:
    with pytest.raises(LaunchError, match="that the manifest sets"):
        PodJob(**{**FULL, "env": {variable: "x"}})


def test_the_command_line(tmp_path: Path) -> None:
    start = ("manifest", "kubernetes", "--image", "me/digits", "-n", "2")
    done = tfmuster(
        *start, "--env", "A=b=c", "--volume", "runs=/r", "--", "train.py", "--n", "1", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    _, job, _ = yaml.safe_load_all(done.stdout)
    container = container_of(job["spec"]["template"])
    assert container["command"] == ["tfmuster", "worker", "--", "train.py", "--n", "1"]
    assert {"name": "A", "value": "b=c"} in container["env"]
    assert tfmuster(*start, "--kind", "tfjob", "train.py", cwd=tmp_path).stdout.startswith(
        '---\napiVersion: "kubeflow.org/v1"\nkind: "TFJob"\n'
    )
    assert tfmuster(*start, "--kind", "jobset", "train.py", cwd=tmp_path).stdout.startswith(
        '---\napiVersion: "jobset.x-k8s.io/v1alpha2"\nkind: "JobSet"\n'
    )
    refused = tfmuster(*start, "--name", "My Job", "train.py", cwd=tmp_path)
    assert refused.returncode == 2
    assert "DNS label" in refused.stderr
    assert tfmuster(*start, "--env", "A", "train.py", cwd=tmp_path).returncode == 2
    assert tfmuster(*start, "--checkpoint-volume", "/a", "train.py", cwd=tmp_path).returncode == 2


def pods_in(value: Any) -> list[dict[str, Any]]:
    """The specifications of all pods in a manifest."""
    if isinstance(value, list):
        return [pod for each in value for pod in pods_in(each)]
    if not isinstance(value, dict):
        return []
    return [value] if "containers" in value else pods_in(list(value.values()))


def against_the_restricted_standard(pod: dict[str, Any]) -> list[str]:
    """What https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted refuses."""
    (one,), context = pod["containers"], pod["securityContext"]
    own = one["securityContext"]
    rules = {
        "host namespaces": not {"hostNetwork", "hostPID", "hostIPC"} & set(pod),
        "privileged": not own.get("privileged"),
        "host ports": not any("hostPort" in port for port in one["ports"]),
        "volume types": all("persistentVolumeClaim" in volume for volume in pod.get("volumes", ())),
        "privilege escalation": own["allowPrivilegeEscalation"] is False,
        "non-root": context["runAsNonRoot"] is True,
        "non-root user": context["runAsUser"] != 0,
        "seccomp": context["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost"),
        "capabilities": own["capabilities"] == {"drop": ["ALL"]},
        "sysctls": "sysctls" not in context and "seLinuxOptions" not in context,
    }
    return [rule for rule, holds in rules.items() if not holds]


@pytest.mark.parametrize("make", [indexed_job, job_set, tf_job])
def test_a_restricted_namespace_admits_the_pods(make: Any) -> None:
    pods = pods_in(make(PodJob(**FULL)))
    assert len(pods) == 2
    for pod in pods:
        assert against_the_restricted_standard(pod) == []
        assert pod["securityContext"]["fsGroup"] == 1000
        assert pod["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "2Gi"}
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["nodeSelector"] == {"example.org/pool": "gpu"}
        assert pod["tolerations"] == [
            {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists"},
        ]
    (pod, _) = pods_in(make(PodJob(**FULL, run_as=0)))
    assert against_the_restricted_standard(pod) == ["non-root", "non-root user"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"cpu": "two"}, "quantity"),
        ({"memory": "4 GB"}, "quantity"),
        ({"tolerations": ["spot:Never"]}, "toleration"),
        ({"tolerations": ["spot=true=1"]}, "toleration"),
        ({"node_selector": {"pool": "a b"}}, "selector"),
        ({"node_selector": {"UPPER.case/": "a"}}, "selector"),
        ({"pull_secret": "Registry"}, "secret"),
    ],
)
def test_what_kubernetes_would_refuse_of_them(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(LaunchError) as caught:
        PodJob(command=["train.py"], image="me/x:1", workers=2, **given)
    assert caught.value.fields["reason"] == reason


def test_times_are_where_each_kind_has_them() -> None:
    job = PodJob(**FULL)
    for document in indexed_job(job):
        if document["kind"] == "Job":
            spec = document["spec"]
            assert (spec["ttlSecondsAfterFinished"], spec["activeDeadlineSeconds"]) == (60, 3600)
    spec = job_set(job)[0]["spec"]
    assert spec["ttlSecondsAfterFinished"] == 60
    for each in spec["replicatedJobs"]:
        assert each["template"]["spec"]["activeDeadlineSeconds"] == 3600
        assert "ttlSecondsAfterFinished" not in each["template"]["spec"]
    policy = tf_job(job)[0]["spec"]["runPolicy"]
    assert (policy["ttlSecondsAfterFinished"], policy["activeDeadlineSeconds"]) == (60, 3600)
