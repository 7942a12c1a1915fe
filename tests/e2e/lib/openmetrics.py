"""Reads OpenMetrics from stdin with the strict parser of Prometheus' own client for Python, and says
as JSON what it has: the type and unit of each family, and each exemplar."""
import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

families = {}
exemplars = []
for family in text_string_to_metric_families(sys.stdin.read()):
    families[family.name] = {"type": family.type, "unit": family.unit}
    for s in family.samples:
        if s.exemplar:
            exemplars.append({
                "name": s.name,
                "labels": s.labels,
                "trace_id": s.exemplar.labels["trace_id"],
                "value": s.exemplar.value,
                "at": s.exemplar.timestamp,
            })
            if family.type == "histogram" and s.exemplar.value > float(s.labels["le"]):
                sys.exit(f"an exemplar of {s.exemplar.value} is above its bucket: {s.name} {s.labels}")
json.dump({"families": families, "exemplars": exemplars}, sys.stdout)
