(() => {
  const { css, plain, title, at, BRIGHT, DASHES, SYMBOLS, layout } = page;
  const plots = JSON.parse(document.getElementById("tables-data").textContent);

  const PATTERNS = ["", "/", "x", "."]; // bars of one colour are told apart by these

  function verticalAxis(plot) {
    const largest = Math.max(0, ...Object.values(plot.series).flat().filter((value) => value !== null));
    const cut = plot.most !== null && largest > plot.most;
    return { title: title(plain(plot.y_title)), ...(cut ? { range: [0, plot.most] } : { rangemode: "tozero" }) };
  }

  function drawn(plot) {
    const words = plot.x.map((value) => (typeof value === "string" ? plain(value) : value));
    const traces = Object.entries(plot.series).map(([name, y], place) => ({
      type: plot.bars ? "bar" : "scatter", mode: plot.bars ? undefined : "lines+markers", name: plain(name), x: words, y,
      line: { color: at(BRIGHT, place), dash: at(DASHES, place), width: 2 },
      marker: { color: at(BRIGHT, place), symbol: at(SYMBOLS, place), size: 8,
        pattern: plot.bars ? { shape: PATTERNS[Math.floor(place / BRIGHT.length) % PATTERNS.length] } : undefined },
      hovertemplate: "%{y:.4~g}<extra>" + plain(name) + "</extra>",
    }));
    return {
      traces,
      layout: layout({
        hovermode: "x unified", showlegend: true, barmode: "group",
        xaxis: { title: title(plain(plot.x_title)) },
        yaxis: verticalAxis(plot),
        legend: { orientation: "v", x: 1.02, y: 1, font: { color: css("--ink") } },
      }),
    };
  }

  function draw() {
    const config = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
    return Promise.all(plots.map((plot, place) => {
      if (plot === null) return null;
      const found = drawn(plot);
      return Plotly.react(`plot-${place}`, found.traces, found.layout, config);
    }));
  }

  draw().then(() => { document.documentElement.dataset.drawn = "yes"; });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
