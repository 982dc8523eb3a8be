(() => {
  const { css, narrow, plain, title, placesOf, at, BRIGHT, DASHES, SYMBOLS, MODE_COLOURS, layout } = page;
  const data = JSON.parse(document.getElementById("evaluation-data").textContent);

  const short = (text) => plain(text.length > 34 ? text.slice(0, 33) + "…" : text);
  const named = (names) => ({ tickvals: placesOf(names), ticktext: names.map(short), showgrid: false });

  function heat() {
    const columns = [...data.policies, "bound"];
    const z = data.heat.map((row, cell) => [...row, data.bound[cell]]);
    const texts = columns.length <= 16 && !narrow();
    return {
      traces: [{
        type: "heatmap", x: placesOf(columns), y: placesOf(data.cells), z, zmin: 0, zmax: 100, colorscale: "Cividis",
        xgap: 1, ygap: 1, hoverongaps: false, customdata: data.cells.map((cell) => columns.map((column) => [plain(cell), plain(column)])),
        texttemplate: texts ? "%{z:.1f}" : undefined,
        hovertemplate: "%{customdata[0]}<br>%{customdata[1]}: %{z:.2f} %<extra></extra>",
        colorbar: { ticksuffix: " %", thickness: 12, outlinewidth: 0 },
      }],
      layout: layout({ xaxis: { ...named(columns), side: "top" }, yaxis: { ...named(data.cells), autorange: "reversed" } }),
    };
  }

  function ranks() {
    const { policies, ranks: values, difference, groups } = data.ranks;
    const traces = [{
      type: "scatter", mode: "markers", x: values, y: placesOf(policies), showlegend: false,
      marker: { size: 11, color: policies.map((policy) => at(BRIGHT, data.policies.indexOf(policy))) },
      hovertemplate: "mean rank %{x:.2f}<extra></extra>",
    }];
    groups.forEach((group, place) => {
      const inside = group.map((policy) => policies.indexOf(policy));
      traces.push({
        type: "scatter", mode: "lines", showlegend: false, hoverinfo: "skip",
        x: [0, 0].map(() => values[inside[inside.length - 1]] + 0.12 + 0.12 * (place % 3)), y: [Math.min(...inside), Math.max(...inside)],
        line: { color: css("--quiet"), width: 5 },
      });
    });
    traces.push({
      type: "scatter", mode: "lines+text", x: [1, 1 + difference], y: [-0.8, -0.8], text: ["", "critical difference"],
      textposition: "middle right", line: { color: css("--ink"), width: 2 }, showlegend: false, hoverinfo: "skip", cliponaxis: false,
    });
    return {
      traces,
      layout: layout({
        xaxis: { title: title("mean rank"), range: [0.8, Math.max(policies.length, 1 + difference) + 0.6] },
        yaxis: { ...named(policies), range: [policies.length - 0.5, -1.2] },
      }),
    };
  }

  // Error bars within what a figure can be, so that wide intervals of few seeds do not squeeze all else.
  function intervals(values, most, colour, look) {
    const half = (value) => value[1] ?? 0;
    return {
      type: "data", symmetric: false, color: colour, ...look,
      array: values.map((value) => Math.max(0, Math.min(half(value), most - value[0]))),
      arrayminus: values.map((value) => Math.max(0, Math.min(half(value), value[0]))),
    };
  }

  function curves(axis, group) {
    const shown = data.axes[axis][group];
    const traces = data.policies.map((policy, place) => {
      const line = shown.lines[policy];
      return {
        type: "scatter", mode: "lines+markers", name: plain(policy), x: shown.x, y: line.map((value) => value[0]),
        line: { color: at(BRIGHT, place), dash: at(DASHES, Math.floor(place / BRIGHT.length)), width: 2 },
        marker: { symbol: at(SYMBOLS, place), size: 7 },
        error_y: intervals(line, 100, at(BRIGHT, place), { thickness: 1, width: 3 }),
        hovertemplate: "%{x}: %{y:.2f} %<extra>" + plain(policy) + "</extra>",
      };
    });
    traces.push({
      type: "scatter", mode: "lines", name: "bound", x: shown.x, y: shown.bound,
      line: { color: css("--ink"), dash: "dot", width: 1.5 }, hovertemplate: "%{x}: %{y:.2f} %<extra>bound</extra>",
    });
    const means = traces.flatMap((trace) => trace.y).filter((value) => value !== null);
    const lowest = Math.max(0, 10 * Math.floor(Math.min(90, ...means) / 10) - 5);
    const wide = Math.max(...shown.x) > 8 * Math.min(...shown.x) && Math.min(...shown.x) > 0;
    return {
      traces,
      layout: layout({
        xaxis: { title: title(plain(axis)), type: wide ? "log" : "linear", tickvals: shown.x, ticktext: shown.labels.map(plain) },
        yaxis: { title: title("% on time"), range: [lowest, 101] },
      }),
    };
  }

  function bars(values, suffix, most) {
    return {
      traces: [{
        type: "bar", x: placesOf(data.policies), y: values.map((value) => value[0]),
        marker: { color: data.policies.map((_, place) => at(BRIGHT, place)) },
        error_y: intervals(values, most, css("--ink"), { thickness: 1.4, width: 4 }),
        customdata: data.policies.map(plain), hovertemplate: "%{customdata}: %{y:.4~g}" + suffix + "<extra></extra>",
      }],
      layout: layout({ xaxis: { ...named(data.policies), tickangle: data.policies.length > 5 ? -60 : 0 }, yaxis: { rangemode: "tozero" } }),
    };
  }

  function modesOverTime(policy) {
    const traces = Object.entries(data.modes[policy].time).map(([mode, shares]) => ({
      type: "bar", name: mode, x: shares.map((_, bin) => ((bin + 0.5) * 100) / shares.length), y: shares,
      marker: { color: MODE_COLOURS[mode] }, hovertemplate: "%{y:.1f} %<extra>" + mode + "</extra>",
    }));
    return { traces, layout: layout({ barmode: "stack", bargap: 0.03, xaxis: { title: title("% of the run"), showgrid: false }, yaxis: { title: title("% of core time"), range: [0, 100] } }) };
  }

  function modesByCell(policy) {
    const traces = Object.entries(data.modes[policy].cells).map(([mode, shares]) => ({
      type: "bar", orientation: "h", name: mode, y: placesOf(data.cells), x: shares, customdata: data.cells.map(plain),
      marker: { color: MODE_COLOURS[mode] }, hovertemplate: "%{customdata}: %{x:.1f} %<extra>" + mode + "</extra>",
    }));
    return { traces, layout: layout({ barmode: "stack", bargap: 0.25, xaxis: { range: [0, 100], title: title("% of core time") }, yaxis: { ...named(data.cells), autorange: "reversed" } }) };
  }

  function filled(id, names, chosen) {
    const select = document.getElementById(id);
    names.forEach((name) => select.add(new Option(name, name, name === chosen, name === chosen)));
    select.addEventListener("change", draw);
    return select;
  }

  const axes = Object.keys(data.axes);
  const groups = axes.map((axis, place) => filled(`group-${place}`, Object.keys(data.axes[axis]), "all"));
  const shownFirst = data.policies.includes("lucas") ? "lucas" : data.policies[data.policies.length - 1];
  const policy = filled("modes-policy", data.policies, shownFirst);

  function draw() {
    const config = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
    const plots = {
      heat: heat(), fairness: bars(data.fairness, "", 1), energy: bars(data.energy, " mJ", Infinity),
      "modes-time": modesOverTime(policy.value), "modes-cells": modesByCell(policy.value),
    };
    if (data.ranks) plots.ranks = ranks();
    axes.forEach((axis, place) => { plots[`axis-${place}`] = curves(axis, groups[place].value); });
    return Promise.all(Object.entries(plots).map(([name, plot]) => Plotly.react(`plot-${name}`, plot.traces, plot.layout, config)));
  }

  draw().then(() => { document.documentElement.dataset.drawn = "yes"; });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
