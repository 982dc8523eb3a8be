"""What came out, in sentences: who meets which SLA, and whether differences are more than noise."""

from __future__ import annotations

from collections.abc import Mapping

from headway.record.figures import percent, satisfaction
from headway.record.metrics import Scores, Summary


def headline(summaries: Mapping[str, Summary]) -> str:
    """One sentence on all policies together."""
    asked = {name: _met(summary) for name, summary in summaries.items()}
    wanted = max((len(met) for met in asked.values()), default=0)
    if not wanted:
        best = _best(summaries)
        if best is None:
            return "No request was measured."
        return f"{best} served {percent(summaries[best].total.sla_satisfaction)} of the requests in time."
    winners = [name for name, met in asked.items() if met and all(met.values())]
    if winners and len(summaries) == 1:
        return f"{winners[0]} meets {_all(wanted)}."
    if winners:
        verb = "meets" if len(winners) == 1 else "meet"
        others = "" if len(winners) == len(summaries) else "; no other policy does"
        return f"{_list(winners)} {verb} {_all(wanted)}{others}."
    most = max(sum(met.values()) for met in asked.values())
    if len(summaries) == 1:
        return f"{next(iter(summaries))} meets {most} of {wanted} SLAs."
    if not most:
        return f"No policy meets any of the {wanted} SLAs." if wanted > 1 else "No policy meets the SLA."
    closest = [name for name, met in asked.items() if sum(met.values()) == most]
    verb = "comes" if len(closest) == 1 else "come"
    return f"No policy meets every SLA; {_list(closest)} {verb} closest with {most} of {wanted}."


def sentence(summary: Summary) -> str:
    """What one policy reached: the tenants whose SLA it misses, and why."""
    met = _met(summary)
    missed = [name for name, kept in met.items() if not kept]
    if not met:
        return (
            f"{percent(summary.total.sla_satisfaction)} of {summary.total.requests:,} requests were in time."
        )
    if not missed:
        return (
            f"Every SLA is met: {satisfaction(summary.total)} of {summary.total.requests:,} requests in time."
        )
    targets = {str(entry["name"]): entry.get("percentile") for entry in summary.metadata.get("tenants", ())}
    parts = []
    for name in missed[:4]:
        scores = summary.tenants[name]
        share = percent(scores.sla_satisfaction)
        parts.append(f"{name} ({share} in time, {targets[name]:g} % asked{_causes(scores)})")
    more = f" and {len(missed) - 4} more tenants" if len(missed) > 4 else ""
    return f"{len(met) - len(missed)} of {len(met)} SLAs are met. Missed: {', '.join(parts)}{more}."


def caution(summaries: Mapping[str, Summary]) -> str:
    """A warning if the two best policies are closer than their intervals are wide; empty otherwise."""
    measured = {name: s.total for name, s in summaries.items() if s.total.sla_satisfaction is not None}
    ranked = sorted(measured, key=lambda name: -(measured[name].sla_satisfaction or 0.0))
    if len(ranked) < 2:
        return ""
    first, second = measured[ranked[0]], measured[ranked[1]]
    if first.sla_satisfaction == second.sla_satisfaction:
        return f"{ranked[0]} and {ranked[1]} have the same SLA satisfaction."
    if first.sla_low is not None and second.sla_high is not None and first.sla_low <= second.sla_high:
        return (
            f"{ranked[0]} and {ranked[1]} differ by less than their 95 % intervals: more requests or more"
            " seeds are needed to tell them apart."
        )
    return ""


def _met(summary: Summary) -> dict[str, bool]:
    """For each tenant with an SLA and with requests whether it is met."""
    strict = {str(entry["name"]): entry.get("strict", True) for entry in summary.metadata.get("tenants", ())}
    return {
        name: scores.meets_percentile
        for name, scores in summary.tenants.items()
        if scores.meets_percentile is not None and strict.get(name, True)
    }


def _best(summaries: Mapping[str, Summary]) -> str | None:
    measured = {
        n: s.total.sla_satisfaction for n, s in summaries.items() if s.total.sla_satisfaction is not None
    }
    return max(measured, key=measured.__getitem__) if measured else None


def _causes(scores: Scores) -> str:
    causes = ("late", "dropped", "rejected", "failed", "cancelled", "unfinished")
    found = [f"{getattr(scores, cause):,} {cause}" for cause in causes if getattr(scores, cause)]
    return "; " + ", ".join(found) if found else ""


def _all(count: int) -> str:
    return "the SLA" if count == 1 else "both SLAs" if count == 2 else f"all {count} SLAs"


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
