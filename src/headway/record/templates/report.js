(() => {
  const { css, narrow, plain, title, placesOf, at, BRIGHT, DASHES, MODE_COLOURS, layout } = page;
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const CAUSE_COLOURS = {
    late: "#E69F00", dropped: "#D55E00", rejected: "#CC79A7", failed: "#8B2252", cancelled: "#999999", unfinished: "#56B4E9",
  };
  const MODE_PATTERNS = { serial: "", fused: "/", pipeline: "x", split: "." };
  const MISSES = "missed";

  const policyColour = (place) => at(BRIGHT, place);
  const short = (text) => plain(text.length > 22 ? text.slice(0, 21) + "…" : text);
  const PERCENT_TICKS = { tickvals: [0, 25, 50, 75, 100], ticktext: ["0 %", "25 %", "50 %", "75 %", "100 %"] };
  // Places with texts, rather than names as categories: two long names may be cut to the same text.
  const named = (names) => ({ tickvals: names.map((_, place) => place), ticktext: names.map(short), showgrid: false });
  const lightColour = (place) => [1, 4, 5].includes(place % BRIGHT.length); // needs dark text on it

  function logTicks(values) {
    const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)));
    const steps = high - low > 3 ? [1] : high - low > 1 ? [1, 2, 5] : [1, 2, 3, 5, 7];
    const ticks = [];
    for (let power = low; power <= high; power++) for (const step of steps) ticks.push(Number((step * 10 ** power).toPrecision(2)));
    return { tickvals: ticks, ticktext: ticks.map(String) };
  }

  function sla() {
    const names = [...data.tenants.map((tenant) => tenant.name), "all"];
    const places = placesOf(names);
    const texts = names.length * data.policies.length <= 24 && !narrow();
    const traces = data.policies.map((policy, place) => {
      const bars = data.sla.bars[policy];
      return {
        type: "bar", name: plain(policy), x: places, y: bars.map((bar) => bar[0]),
        marker: { color: policyColour(place) },
        error_y: {
          type: "data", symmetric: false, thickness: 1.4, width: 4, color: css("--ink"),
          array: bars.map((bar) => bar[2] - bar[0]), arrayminus: bars.map((bar) => bar[0] - bar[1]),
        },
        text: texts ? bars.map((bar) => (bar[0] === null ? "" : bar[0].toFixed(1))) : undefined,
        textposition: "inside", insidetextanchor: "start", textangle: 0, cliponaxis: false,
        insidetextfont: { color: lightColour(place) ? "#111" : "#fff" },
        customdata: bars, hovertemplate: "%{y:.2f} % in time<br>95 % interval %{customdata[1]:.2f} to %{customdata[2]:.2f}<extra>" + plain(policy) + "</extra>",
      };
    });
    if (data.sla.targets.some((target) => target !== null)) {
      traces.push({
        type: "scatter", mode: "markers", name: "asked", x: places, y: data.sla.targets,
        marker: { symbol: "diamond", size: 9, color: css("--ink"), line: { color: css("--panel"), width: 1.5 } },
        hovertemplate: "%{y} % asked<extra></extra>",
      });
    }
    return {
      traces,
      layout: layout({
        barmode: "group", bargap: 0.25,
        xaxis: named(names),
        yaxis: { range: [0, 104], ...PERCENT_TICKS },
      }),
    };
  }

  function violations() {
    const used = data.violations.causes.filter((_, at) => data.policies.some((policy) => data.violations.counts[policy][at]));
    const traces = used.map((cause) => {
      const at = data.violations.causes.indexOf(cause);
      const counts = data.policies.map((policy) => data.violations.counts[policy][at]);
      return {
        type: "bar", orientation: "h", name: cause, y: placesOf(data.policies), customdata: counts.map((count, place) => [count, plain(data.policies[place])]),
        x: counts.map((count, place) => (100 * count) / Math.max(1, data.violations.requests[data.policies[place]])),
        marker: { color: CAUSE_COLOURS[cause], line: { color: css("--panel"), width: 1 } },
        hovertemplate: "%{customdata[0]} " + cause + " (%{x:.2f} %)<extra>%{customdata[1]}</extra>",
      };
    });
    return {
      traces,
      layout: layout({
        barmode: "stack", showlegend: used.length > 0,
        xaxis: { ticksuffix: " %", rangemode: "tozero", visible: used.length > 0 },
        yaxis: { ...named(data.policies), range: [data.policies.length - 0.5, -0.5] },
        annotations: used.length ? [] : [{ text: "No violation", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }],
      }),
    };
  }

  function latency(panel) {
    const curves = Object.values(panel.curves).filter((curve) => curve.ms.length);
    const deadline = panel.deadline_ms;
    const values = curves.flatMap((curve) => [curve.ms[0], curve.ms[curve.ms.length - 1]]).filter((ms) => ms > 0);
    if (deadline !== null) values.push(deadline);
    const last = Math.max(...values) * 1.05;
    const traces = data.policies.flatMap((policy, place) => {
      const curve = panel.curves[policy];
      if (!curve || !curve.ms.length) return [];
      return [{
        type: "scatter", mode: "lines", name: plain(policy),
        x: [...curve.ms, last], y: [...curve.percent, curve.percent[curve.percent.length - 1]],
        line: { shape: "hv", color: policyColour(place), width: 2, dash: DASHES[place % DASHES.length] },
        hovertemplate: "%{y:.1f} % within %{x:.3g} ms<extra>" + plain(policy) + "</extra>",
      }];
    });
    return {
      traces,
      layout: layout({
        showlegend: false,
        xaxis: { type: "log", title: title("ms"), ...logTicks(values.length ? values : [1, 10]) },
        yaxis: { range: [0, 102], ...PERCENT_TICKS },
        shapes: deadline === null ? [] : [{
          type: "line", x0: deadline, x1: deadline, y0: 0, y1: 1, yref: "paper", line: { color: css("--ink"), width: 1.5, dash: "dash" },
        }],
      }),
    };
  }

  let ganttRange = null;
  function gantt() {
    const policy = document.getElementById("gantt-policy").value;
    const rows = [...data.gantt.cores[policy], MISSES];
    const slices = data.gantt.slices[policy];
    const misses = data.gantt.misses[policy];
    const traces = data.tenants.flatMap((tenant, place) => {
      const own = slices.filter((slice) => slice[0] === place);
      if (!own.length) return [];
      // The legend shows a bar's first pattern, which says nothing about the tenant: it gets an entry of its own.
      const entry = { type: "bar", name: short(tenant.name), legendgroup: tenant.name, x: [null], y: [null], marker: { color: tenant.colour } };
      return [entry, {
        type: "bar", orientation: "h", showlegend: false, legendgroup: tenant.name,
        y: own.map((slice) => slice[1]), base: own.map((slice) => slice[2]), x: own.map((slice) => slice[3]),
        customdata: own.map((slice) => [slice[4], slice[5], slice[6], slice[7], slice[3]]),
        marker: {
          color: tenant.colour,
          line: { color: css("--panel"), width: 0.7 },
          pattern: { shape: own.map((slice) => MODE_PATTERNS[slice[4]] || ""), fgcolor: css("--panel"), fgopacity: 0.55, size: 7, solidity: 0.25, fillmode: "overlay" },
        },
        hovertemplate: "request %{customdata[1]}, %{customdata[0]}, blocks %{customdata[2]}<br>%{base:.4f} ms for %{customdata[4]:.4f} ms<br>%{customdata[3]}<extra>" + plain(tenant.name) + "</extra>",
      }];
    });
    if (misses.length) {
      traces.push({
        type: "scatter", mode: "markers", name: "late or given up", y: misses.map(() => rows.length - 1), x: misses.map((miss) => miss[1]),
        marker: { symbol: "x-thin", size: 9, line: { width: 2, color: misses.map((miss) => data.tenants[miss[0]].colour) } },
        customdata: misses.map((miss) => [plain(data.tenants[miss[0]].name), miss[2], miss[3]]), showlegend: false,
        hovertemplate: "request %{customdata[2]} %{customdata[1]}<extra>%{customdata[0]}</extra>",
      });
    }
    const { from_ms, until_ms, end_ms, view_ms } = data.gantt;
    document.getElementById("gantt-window").textContent = until_ms < end_ms || from_ms > 0
      ? `Drawn are ${from_ms.toFixed(0)} to ${until_ms.toFixed(0)} ms of ${end_ms.toFixed(0)} ms; timeline.json has more, for Perfetto.` : "";
    return {
      traces,
      layout: layout({
        barmode: "overlay", bargap: 0.18, dragmode: "pan", showlegend: true,
        xaxis: { title: title("ms"), range: ganttRange || [from_ms, view_ms] },
        yaxis: { ...named(rows), range: [rows.length - 0.4, -0.6], fixedrange: true },
      }),
    };
  }

  function bandwidth() {
    const traces = Object.entries(data.bandwidth.lines).map(([policy, line]) => {
      const place = data.policies.indexOf(policy);
      return {
        type: "scatter", mode: "lines", name: plain(policy), x: data.bandwidth.ms, y: line,
        line: { color: policyColour(place), width: 1.5, dash: DASHES[place % DASHES.length] },
        hovertemplate: "%{y:.3g} GB/s<extra>" + plain(policy) + "</extra>",
      };
    });
    const capacity = data.bandwidth.capacity;
    return {
      traces,
      layout: layout({
        hovermode: "x",
        xaxis: { title: title("ms") },
        yaxis: { title: title("GB/s"), rangemode: "tozero", range: capacity === null ? undefined : [0, capacity * 1.1] },
        shapes: capacity === null ? [] : [{
          type: "line", xref: "paper", x0: 0, x1: 1, y0: capacity, y1: capacity, line: { color: css("--ink"), width: 1.5, dash: "dash" },
        }],
      }),
    };
  }

  function modes() {
    const used = Object.keys(MODE_COLOURS).filter((mode) => data.policies.some((policy) => data.modes[policy][mode]));
    const traces = used.map((mode) => ({
      type: "bar", orientation: "h", name: mode, y: placesOf(data.policies),
      x: data.policies.map((policy) => (data.modes[policy][mode] || [0, 0])[0]),
      customdata: data.policies.map((policy) => [(data.modes[policy][mode] || [0, 0])[1], plain(policy)]),
      marker: { color: MODE_COLOURS[mode], line: { color: css("--panel"), width: 1 }, pattern: { shape: MODE_PATTERNS[mode], fgcolor: css("--panel"), fgopacity: 0.5, size: 8, solidity: 0.2, fillmode: "overlay" } },
      hovertemplate: "%{x:.1f} % of blocks " + mode + ", %{customdata[0]:.1f} % of core time<extra>%{customdata[1]}</extra>",
    }));
    return {
      traces,
      layout: layout({ barmode: "stack", showlegend: true, xaxis: { range: [0, 101], ...PERCENT_TICKS }, yaxis: { ...named(data.policies), range: [data.policies.length - 0.5, -0.5] } }),
    };
  }

  function cores() {
    const traces = data.policies.map((policy, place) => ({
      type: "bar", name: plain(policy), x: placesOf(data.cores[policy].names), y: data.cores[policy].percent,
      marker: { color: policyColour(place) }, hovertemplate: "%{y:.1f} % busy<extra>" + plain(policy) + "</extra>",
    }));
    return {
      traces,
      layout: layout({ barmode: "group", xaxis: named(data.cores[data.policies[0]].names), yaxis: { range: [0, 102], ticksuffix: " %" } }),
    };
  }

  const CONFIG = { responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const plots = new Map([
    ["plot-sla", sla], ["plot-violations", violations], ["plot-gantt", gantt],
    ["plot-bandwidth", bandwidth], ["plot-modes", modes], ["plot-cores", cores],
  ]);
  data.latency.forEach((panel, place) => {
    const figure = document.createElement("figure");
    const heading = document.createElement("h3");
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = data.tenants[place].colour;
    heading.append(swatch, panel.tenant);
    if (panel.deadline_ms !== null) {
      const deadline = document.createElement("small");
      deadline.textContent = "deadline " + Number(panel.deadline_ms.toPrecision(3)) + " ms";
      heading.append(deadline);
    }
    const plot = document.createElement("div");
    plot.id = "plot-latency-" + place;
    plot.className = "plot";
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", "Cumulative latency of " + panel.tenant + " for each policy");
    figure.append(heading, plot);
    document.getElementById("plot-latency").append(figure);
    plots.set(plot.id, () => latency(panel));
  });

  data.policies.forEach((policy, place) => {
    const sample = document.createElement("span");
    sample.className = "sample";
    sample.style.borderTopColor = policyColour(place);
    sample.style.borderTopStyle = ["solid", "dashed", "dotted"][Math.min(2, place % DASHES.length)];
    const entry = document.createElement("li");
    entry.append(sample, policy);
    document.getElementById("latency-legend").append(entry);
  });

  document.querySelectorAll(".card").forEach((card) => {
    const colour = policyColour(data.policies.indexOf(card.dataset.policy));
    card.style.setProperty("--fill", colour);
    card.querySelector(".policy-swatch").style.background = colour;
  });

  function draw(id) {
    const chart = plots.get(id)();
    return Plotly.react(id, chart.traces, chart.layout, CONFIG);
  }
  function drawAll() {
    return Promise.all([...plots.keys()].filter((id) => document.getElementById(id)).map(draw));
  }

  const ganttPlot = document.getElementById("plot-gantt");
  const tallest = Math.max(...Object.values(data.gantt.cores).map((names) => names.length));
  ganttPlot.style.height = Math.min(900, 130 + 38 * (tallest + 1)) + "px";
  document.getElementById("gantt-policy").addEventListener("change", () => draw("plot-gantt"));
  document.querySelectorAll("[data-move], [data-zoom]").forEach((button) => button.addEventListener("click", () => {
    const [from, until] = ganttPlot.layout.xaxis.range.map(Number);
    const { from_ms, until_ms } = data.gantt;
    const whole = until_ms - from_ms;
    const length = Math.min(whole, (until - from) * Number(button.dataset.zoom || 1));
    const middle = (from + until) / 2 + 0.7 * (until - from) * Number(button.dataset.move || 0);
    const start = Math.max(from_ms, Math.min(until_ms - length, middle - length / 2));
    ganttRange = [start, start + length];
    Plotly.relayout(ganttPlot, { "xaxis.range": ganttRange.slice() });
  }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll().then(() => {
    ganttPlot.on("plotly_relayout", () => { ganttRange = ganttPlot.layout.xaxis.range.map(Number); });
    document.documentElement.dataset.drawn = "yes";
  });
})();
