"""Figures about the operator in Prometheus' text format, kept in memory: counters and histograms, and nothing else.

Labels are words of ours, never names of jobs: ten thousand jobs must not be ten thousand series.
"""

from collections.abc import Mapping, Sequence

SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of a histogram's buckets: from what a person does not notice to what a person has done by then."""

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """How often something took how long."""

    def __init__(self, name: str, what: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name, self.what, self._bounds = name, what, (*bounds, float("inf"))
        self._series: dict[Labels, list[float]] = {}

    def observe(self, seconds: float, **labels: str) -> None:
        """One more."""
        row = self._series.setdefault(tuple(sorted(labels.items())), [0.0] * (len(self._bounds) + 1))
        row[-1] += seconds
        for place, bound in enumerate(self._bounds):
            row[place] += seconds <= bound

    def text(self) -> str:
        """The lines of the exposition format."""
        lines = [f"# HELP {self.name} {self.what}", f"# TYPE {self.name} histogram"]
        for labels, row in sorted(self._series.items()):
            for bound, count in zip(self._bounds, row, strict=False):
                named = "+Inf" if bound == float("inf") else f"{bound:g}"
                lines.append(f"{self.name}_bucket{_braces(dict(labels), le=named)} {count:g}")
            lines.append(f"{self.name}_sum{_braces(dict(labels))} {row[-1]:g}")
            lines.append(f"{self.name}_count{_braces(dict(labels))} {row[-2]:g}")
        return "\n".join(lines) + "\n"


class Counter:
    """How often something has happened."""

    def __init__(self, name: str, what: str) -> None:
        self.name, self.what = name, what
        self._series: dict[Labels, int] = {}

    def add(self, count: int = 1, **labels: str) -> None:
        """So many more."""
        key = tuple(sorted(labels.items()))
        self._series[key] = self._series.get(key, 0) + count

    def text(self) -> str:
        """The lines of the exposition format."""
        lines = [f"# HELP {self.name} {self.what}", f"# TYPE {self.name} counter"]
        lines += [f"{self.name}{_braces(dict(labels))} {count}" for labels, count in sorted(self._series.items())]
        return "\n".join(lines) + "\n"


class Metrics:
    """All figures of one operator."""

    def __init__(self) -> None:
        self.recovery = Histogram(
            "elasticjob_recovery_seconds",
            "From one round to the first training step of the next, by rung of the ladder and step.",
        )
        self.failures = Counter("elasticjob_failures_total", "Failures of jobs, by class.")
        self.decisions = Histogram(
            "elasticjob_autoscaler_decision_seconds", "What one decision of the autoscaler took."
        )
        self.allocations = Counter("elasticjob_allocations_total", "Sizes that the autoscaler gave, by reason.")

    def text(self) -> str:
        """What a scrape is answered with."""
        return "".join(one.text() for one in (self.recovery, self.failures, self.decisions, self.allocations))


def _braces(labels: Mapping[str, str], **more: str) -> str:
    found = ",".join(f'{key}="{value}"' for key, value in {**labels, **more}.items())
    return f"{{{found}}}" if found else ""
