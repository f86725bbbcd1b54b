"""Checks what deploy/ holds, without an engine that could run it.

    lint.py [promtool=PROGRAM] [haproxy=PROGRAM] [systemd-analyze=PROGRAM]

Files have the form that their readers want (schemas of compose and Kubernetes, Prometheus' and HAProxy's own checks), and what stands
in two places agrees: names of variables, files that are mounted, and how long a gateway may take to end. Whether the names of metrics
exist, and whether the gateway takes the configurations, is for tests/it/deploy.rs. Prints each mistake; exits with 1 if there was one.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import kubernetes_validate
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
OLDEST_KUBERNETES = "1.31"
mistakes = []


def expect(ok, where, what):
    if not ok:
        mistakes.append(f"{where}: {what}")


class Strict(yaml.SafeLoader):
    """A key that stands twice is a mistake: YAML takes the last one and says nothing."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        for key in {key for key in keys if keys.count(key) > 1}:
            raise yaml.YAMLError(f"{key!r} stands twice{node.start_mark}")
        return super().construct_mapping(node, deep)


def documents(path):
    try:
        return [document for document in yaml.load_all(path.read_text(), Strict) if document is not None]
    except yaml.YAMLError as error:
        mistakes.append(f"{path}: {error}")
        return []


def run(where, *command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    expect(done.returncode == 0, where, f"{done.stdout}{done.stderr}")


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m|min)?", str(text)).groups()
    return int(number) * (60 if unit in ("m", "min") else 1)


def variables(text):
    """Names in ${…}, without those that are commented out."""
    lines = (line.split("#")[0] for line in text.splitlines())
    return {name for line in lines for name in re.findall(r"\$\{([A-Z_]+)", line)}


def compose():
    folder = DEPLOY / "compose"
    path = folder / "compose.yaml"
    checker = Path(sys.executable).with_name("check-jsonschema")
    run(path, checker, "--builtin-schema", "vendor.compose-spec", path)
    (file,) = documents(path)
    config = (folder / "backstory/backstory.toml").read_text()
    drain = tomllib.loads(config)["server"]["drain_seconds"]
    example = set(re.findall(r"^(?:# )?([A-Z_]+)=", (folder / "example.env").read_text(), re.M))
    expect(variables(path.read_text()) == example, path, "asks for other variables than example.env has")
    for name, service in file["services"].items():
        where = f"{path}: {name}"
        expect("@" in service["image"] or ":" in service["image"], where, "says no version")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                expect((folder / source).exists(), where, f"mounts {source}, which is not there")
            else:
                expect(source in file["volumes"], where, f"mounts the volume {source}, which is not declared")
        for port in service.get("ports", []):
            expect(port.startswith(("127.0.0.1:", "${BACKSTORY_ADDRESS:-127.0.0.1:")), where, f"{port} is open to others")
        if "profiles" in service:
            continue
        expect("memory" in service["deploy"]["resources"]["limits"], where, "may take all memory")
        expect(service["restart"] == "unless-stopped", where, "stays away after a crash")
        if name.startswith("gateway"):
            expect(variables(config) <= service["environment"].keys(), where, "the config asks for other variables")
            expect(seconds(service["stop_grace_period"]) >= drain + 15, where, "is killed before streams end")
    balancer = (folder / "haproxy.cfg").read_text()
    expect(seconds(re.search(r"hard-stop-after (\w+)", balancer)[1]) > drain, "haproxy.cfg", "cuts streams that may go on")


def kubernetes():
    folder = DEPLOY / "kubernetes"
    (kustomization,) = documents(folder / "kustomization.yaml")
    listed = set(kustomization["resources"])
    there = {path.name for path in folder.glob("*.yaml") if not path.name.endswith(".example.yaml")}
    expect(listed == there - {"kustomization.yaml"}, folder, f"kustomization.yaml lists {listed}, there is {there}")
    for generator in kustomization["configMapGenerator"]:
        for file in generator["files"]:
            expect((folder / file).exists(), folder, f"kustomization.yaml names {file}, which is not there")
    for path in sorted(folder.glob("*.yaml")):
        for document in documents(path):
            if document["kind"] in ("Kustomization", "ServiceMonitor"):
                continue  # not Kubernetes' own
            try:
                kubernetes_validate.validate(document, OLDEST_KUBERNETES, strict=True)
            except kubernetes_validate.ValidationError as error:
                mistakes.append(f"{path}: {error.message}")
    text = (folder / "backstory/backstory.toml").read_text()
    config = tomllib.loads(text)["server"]
    (secret,) = documents(folder / "secret.example.yaml")
    expect(variables(text) == secret["stringData"].keys(), folder, "config and secret.example.yaml name other variables")
    (deployment,) = documents(folder / "deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace = pod["terminationGracePeriodSeconds"]
    expect(grace >= pause + config["drain_seconds"] + 15, folder, "pods are killed before streams end")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    expect(ports["http"] == int(config["listen"].split(":")[1]), folder, "listen is not the port http")
    expect(ports["operators"] == int(config["admin_listen"].split(":")[1]), folder, "admin_listen is not the port operators")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    for path in ("service.yaml", "poddisruptionbudget.yaml", "networkpolicy.yaml"):
        for document in documents(folder / path):
            spec = document["spec"]
            selector = spec.get("selector", spec.get("podSelector"))
            selected = selector.get("matchLabels", selector)
            expect(selected.items() <= labels, folder / path, "selects other pods than those of the deployment")


def dashboard(promtool):
    path = DEPLOY / "grafana/backstory.json"
    board = json.loads(path.read_text())
    panels = board["panels"]
    expect(len({panel["id"] for panel in panels}) == len(panels), path, "an id stands twice")
    taken = {}
    expressions = [annotation["expr"] for annotation in board["annotations"]["list"]]
    for panel in panels:
        place = panel["gridPos"]
        for cell in ((x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])):
            expect(cell not in taken and cell[0] < 24, path, f"{panel['title']} overlaps {taken.get(cell, 'the edge')}")
            taken[cell] = panel["title"]
        if panel["type"] != "row":
            expect(panel["targets"], path, f"{panel['title']} shows nothing")
            expressions += [target["expr"] for target in panel["targets"]]
    if promtool:
        # As recording rules, so that promtool reads them.
        expressions = [expr.replace("$__rate_interval", "5m") for expr in expressions]
        rules = [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(expressions)]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            run(path, promtool, "check", "rules", file.name)


def prometheus(promtool):
    rules = DEPLOY / "prometheus/backstory.rules.yml"
    for rule in (rule for group in documents(rules)[0]["groups"] for rule in group["rules"]):
        where = f"{rules}: {rule['alert']}"
        expect(rule["labels"]["severity"] in ("page", "ticket"), where, "has no severity that anyone knows")
        expect({"summary", "description"} <= rule["annotations"].keys(), where, "does not say what to do")
    if promtool:
        run(rules, promtool, "check", "rules", rules)
        run(rules, promtool, "test", "rules", Path(__file__).with_name("alerts.yml"))
        with tempfile.TemporaryDirectory() as folder:
            # As the containers see it.
            folder = Path(folder)
            (folder / "rules").symlink_to(DEPLOY / "prometheus")
            (folder / "prometheus.yml").write_text((DEPLOY / "compose/prometheus.yml").read_text())
            run("prometheus.yml", promtool, "check", "config", folder / "prometheus.yml")


def unit(systemd_analyze):
    path = DEPLOY / "backstory.service"
    text = path.read_text()
    stop = seconds(re.search(r"^TimeoutStopSec=(\w+)", text, re.M)[1])
    expect(stop >= 30 + 15, path, "is killed before streams end")
    if systemd_analyze:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            copy.write_text(text.replace("/usr/local/bin/backstory", "/bin/true"))
            run(path, systemd_analyze, "verify", "--man=no", copy)
            run(path, systemd_analyze, "security", "--offline=true", "--threshold=20", copy)


def main():
    programs = dict(argument.split("=", 1) for argument in sys.argv[1:])
    for path in sorted(DEPLOY.rglob("*.y*ml")):
        documents(path)
    compose()
    kubernetes()
    prometheus(programs.get("promtool"))
    dashboard(programs.get("promtool"))
    unit(programs.get("systemd-analyze"))
    if haproxy := programs.get("haproxy"):
        run("haproxy.cfg", haproxy, "-c", "-q", "-f", DEPLOY / "compose/haproxy.cfg")
    for mistake in mistakes:
        print(f"MISTAKE {mistake}", file=sys.stderr)
    print(f"deploy/: {len(mistakes)} mistakes")
    sys.exit(bool(mistakes))


main()
