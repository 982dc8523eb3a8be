(() => {
  const { css, plain, title, at, DASHES, SYMBOLS } = page;
  const layout = (changes) => page.layout({ margin: { l: 56, r: 24, t: 8, b: 44 }, ...changes });
  const data = JSON.parse(document.getElementById("cost-data").textContent);
  // Okabe and Ito, "Color Universal Design" (2008): told apart with any common colour blindness.
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#8C8C8C"];
  const TERMS = { compute: "#0072B2", stall: "#D55E00", onload: "#E69F00", offload: "#CC79A7" };
  const TERM_NAMES = { compute: "compute", stall: "stall", onload: "load", offload: "store" };

  const names = data.layers.map(plain);
  const places = data.layers.map((_, place) => place);

  const layerAxis = () => ({ title: title("layer, by number"), showgrid: false, range: [-0.6, names.length - 0.4] });

  function bars(parts, colour, label, unit, scale) {
    const traces = Object.entries(parts).map(([part, values], place) => ({
      type: "bar", name: plain(label(part)), x: places, y: values.map((value) => value * scale), customdata: names,
      marker: { color: colour(part, place) },
      hovertemplate: "%{customdata}<br>%{y:.4~s}" + unit + "<extra>" + plain(label(part)) + "</extra>",
    }));
    return {
      traces,
      layout: layout({ barmode: "stack", bargap: 0.15, xaxis: layerAxis(), yaxis: { tickformat: "~s", ticksuffix: unit } }),
    };
  }

  function bytes(core) {
    const traces = Object.entries(core.memories).map(([memory, values], place) => ({
      type: "scatter", mode: "markers", name: plain(memory), x: places, customdata: names,
      y: values.map((value) => (value > 0 ? value : null)),
      marker: { color: at(COLOURS, place), symbol: at(SYMBOLS, place), size: 7 },
      hovertemplate: "%{customdata}<br>%{y:.4~s}B<extra>" + plain(memory) + "</extra>",
    }));
    return {
      traces,
      layout: layout({ xaxis: layerAxis(), yaxis: { type: "log", dtick: 1, tickformat: "~s", ticksuffix: "B" } }),
    };
  }

  function roofline() {
    const points = data.cores.flatMap((core) => core.points);
    const ridges = data.cores.map((core) => core.peak_macs_s / data.bandwidth_bytes_s);
    const intensities = [...points.map((point) => point.macs_per_byte), ...ridges];
    const low = Math.min(...intensities) / 2, high = Math.max(...intensities) * 3;
    const peak = Math.max(...data.cores.map((core) => core.peak_macs_s));
    const rates = [Math.min(peak / 10, ...points.map((point) => point.macs_s)) / 2, peak * 2];
    const traces = data.cores.flatMap((core, place) => {
      const ridge = ridges[place], colour = at(COLOURS, place), name = plain(core.title);
      const roof = {
        type: "scatter", mode: "lines", name: name + " roof", legendgroup: core.title,
        x: [low, ridge, high], y: [low * data.bandwidth_bytes_s, core.peak_macs_s, core.peak_macs_s],
        line: { color: colour, width: 2, dash: at(DASHES, place) }, hoverinfo: "skip",
      };
      const layers = {
        type: "scatter", mode: "markers", name, legendgroup: core.title,
        x: core.points.map((point) => point.macs_per_byte), y: core.points.map((point) => point.macs_s),
        customdata: core.points.map((point) => [names[point.layer], 100 * point.share]),
        marker: {
          color: colour, symbol: at(SYMBOLS, place), opacity: 0.75, line: { color: css("--panel"), width: 1 },
          size: core.points.map((point) => 7 + 40 * Math.sqrt(point.share)),
        },
        hovertemplate: "%{customdata[0]}<br>%{x:.3~s} MAC per byte<br>%{y:.3~s}MAC/s<br>%{customdata[1]:.1f} % of the latency<extra>" + name + "</extra>",
      };
      return [roof, layers];
    });
    return {
      traces,
      layout: layout({
        legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal", itemsizing: "constant" },
        xaxis: { type: "log", title: title("MACs per byte of DRAM traffic"), range: [Math.log10(low), Math.log10(high)], dtick: "D2", tickformat: "~r" },
        yaxis: { type: "log", title: title("MAC/s"), range: rates.map(Math.log10), tickformat: "~s", dtick: 1 },
      }),
    };
  }

  function draw() {
    const config = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
    const plots = { roofline: roofline() };
    data.cores.forEach((core, place) => {
      plots[`latency-${place}`] = bars(core.terms, (term) => TERMS[term], (term) => TERM_NAMES[term], "", 1);
      plots[`energy-${place}`] = bars(core.energy, (_, part) => at(COLOURS, part), (part) => part, "J", 1e-12);
      plots[`bytes-${place}`] = bytes(core);
    });
    return Promise.all(Object.entries(plots).map(([name, plot]) => Plotly.react(`plot-${name}`, plot.traces, plot.layout, config)));
  }

  draw().then(() => { document.documentElement.dataset.drawn = "yes"; });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
