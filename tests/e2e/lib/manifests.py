# Prints what is wrong with manifests of Kubernetes: names of kinds and versions, and that what one part
# names is there in another. No client and no cluster is asked.
#
#   python3 manifests.py FILE CONFIG-FOLDER      puts the texts of ConfigMaps there
import os
import sys
import yaml

VERSIONS = {
    "Namespace": "v1", "ConfigMap": "v1", "Service": "v1",
    "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
}
POD = {"containers", "volumes", "securityContext", "terminationGracePeriodSeconds", "hostNetwork"}
CONTAINER = {"name", "image", "ports", "readinessProbe", "livenessProbe", "resources", "securityContext", "volumeMounts"}


def check_pod(where, spec, claims, maps):
    yield from (f"{where}: {key} is no key of a pod here" for key in spec.keys() - POD)
    volumes = {v["name"]: v for v in spec.get("volumes", [])}
    for name, volume in volumes.items():
        if "configMap" in volume and volume["configMap"]["name"] not in maps:
            yield f"{where}: volume {name} has no ConfigMap"
    for c in spec["containers"]:
        yield from (f"{where}: {key} is no key of a container here" for key in c.keys() - CONTAINER)
        ports = {p["containerPort"] for p in c["ports"]} | {8080}
        for probe in ("readinessProbe", "livenessProbe"):
            if c[probe]["httpGet"]["port"] not in ports:
                yield f"{where}: {probe} asks a port that {c['name']} has not"
        for mount in c["volumeMounts"]:
            volume = volumes.get(mount["name"])
            if not volume and mount["name"] not in claims:
                yield f"{where}: {mount['mountPath']} is of no volume"
            if volume and "configMap" in volume and mount["subPath"] not in maps[volume["configMap"]["name"]]:
                yield f"{where}: {mount['subPath']} is not in its ConfigMap"


def check(objects, folder):
    maps = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
    pods = []
    for o in objects:
        where = f"{o['kind']}/{o['metadata']['name']}"
        if VERSIONS.get(o["kind"]) != o["apiVersion"]:
            yield f"{where}: apiVersion {o['apiVersion']}"
        if o["kind"] != "Namespace" and o["metadata"].get("namespace") != "fnd":
            yield f"{where}: is in no namespace"
        if "template" in o.get("spec", {}):
            labels = o["spec"]["template"]["metadata"]["labels"]
            pods.append((labels, o["spec"]["template"]["spec"]))
            if o["spec"]["selector"]["matchLabels"] != labels:
                yield f"{where}: its selector is not what its pods are labelled"
            claims = {c["metadata"]["name"] for c in o["spec"].get("volumeClaimTemplates", [])}
            yield from check_pod(where, o["spec"]["template"]["spec"], claims, maps)
    for o in objects:
        if o["kind"] == "Service":
            found = [spec for labels, spec in pods if labels == o["spec"]["selector"]]
            ports = {p["containerPort"] for spec in found for c in spec["containers"] for p in c["ports"]}
            for port in o["spec"]["ports"]:
                if port.get("targetPort", port["port"]) not in ports:
                    yield f"Service/{o['metadata']['name']}: no pod has port {port}"
    for data in maps.values():
        for name, text in data.items():
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)


with open(sys.argv[1]) as f:
    wrong = list(check(list(yaml.safe_load_all(f)), sys.argv[2]))
print("\n".join(wrong))
sys.exit(bool(wrong))
