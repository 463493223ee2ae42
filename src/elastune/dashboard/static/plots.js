"use strict";
// Plots of a run, by Plotly, in the colours of the page.

elastune.plots = (function () {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8"];
  const color = (index) => css(COLORS[index % COLORS.length]);
  const ACTIVITY = { starting: "--c4", training: "--c1", saving: "--c3", waiting: "--line" };
  const config = { displaylogo: false, responsive: true, displayModeBar: "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

  function layout(more) {
    const axis = { gridcolor: css("--grid"), zerolinecolor: css("--grid"), linecolor: css("--line"), automargin: true };
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--text"), size: 12, family: css("--font") },
      margin: { l: 56, r: 16, t: 12, b: 42 }, height: 320, hovermode: "closest", hoverlabel: { align: "left" },
      legend: { orientation: "h", y: 1.12, x: 0 }, uirevision: "same",
      xaxis: { ...axis, ...(more.xaxis || {}) }, yaxis: { ...axis, ...(more.yaxis || {}) },
    };
    const { xaxis, yaxis, ...rest } = more;
    return { ...base, ...rest, xaxis: base.xaxis, yaxis: base.yaxis };
  }
  function timeAxis(end) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
    const step = steps.find((each) => end / each <= 8) || 86400 * Math.ceil(end / 86400 / 8);
    const ticks = [];
    for (let at = 0; at <= end * 1.001; at += step) ticks.push(at);
    return { tickvals: ticks, ticktext: ticks.map((at) => at === 0 ? "0" : elastune.duration(at)), range: [0, end * 1.01 || 1] };
  }
  // Plotly labels only powers of ten; within two decades 2 and 5 are labelled as well.
  function numberAxis(values) {
    const numbers = values.filter((value) => typeof value === "number" && value > 0);
    const low = Math.min(...numbers), high = Math.max(...numbers);
    return { type: "log", dtick: numbers.length && high / low <= 100 ? "D2" : undefined };
  }
  const wide = (values) => values.every((value) => typeof value === "number") && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 50;
  const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const settings = (values) => Object.entries(values).map(([key, value]) => `${escaped(key)} = ${escaped(elastune.number(value))}`).join("<br>");
  function draw(place, traces, shape) {
    const whole = layout(shape);
    place.style.minHeight = `${whole.height + 16}px`;  // Plotly takes its own height away while it resizes
    return Plotly.react(place, traces, whole, config);
  }

  function smooth(values, share) {
    if (!share) return values;
    let kept = values[0];
    return values.map((value) => (kept = share * kept + (1 - share) * value));
  }

  function curves(place, figures, options) {
    const seconds = options.x === "seconds";
    const shown = figures.curves.slice(0, options.most);
    const traces = shown.map((curve, index) => ({
      x: seconds ? curve.seconds : curve.iterations, y: smooth(curve.values, options.smoothing), mode: "lines", type: "scatter",
      line: { width: index === 0 ? 3 : 1.2, color: index === 0 ? css("--best") : color(index) }, opacity: index === 0 ? 1 : 0.55,
      name: `trial ${curve.trial}`, showlegend: false, customdata: Array(curve.values.length).fill(curve.trial),
      hovertemplate: `<b>trial ${curve.trial}</b> ${seconds ? "" : "after iteration "}%{x}<br>${escaped(figures.metric)} %{y:.5g}<br>${settings(curve.config)}<extra></extra>`,
    })).reverse();
    draw(place, traces, {
      height: 440, xaxis: { title: { text: seconds ? "time" : "iteration" }, ...(seconds ? timeAxis(figures.end_s) : options.logX ? numberAxis(shown.flatMap((curve) => curve.iterations)) : { type: "linear" }) },
      yaxis: { title: { text: escaped(figures.metric) }, ...(options.logY ? numberAxis(shown.flatMap((curve) => curve.values)) : { type: "linear" }) },
    });
  }

  function best(place, runs, against, height) {
    const money = against === "money";
    const traces = runs.map((run, index) => {
      const x = run.best.map((step) => money ? step.usd : step.at_s), y = run.best.map((step) => step.value);
      if (y.length) { x.push(money ? (run.money.length ? run.money[run.money.length - 1][1] : 0) : run.end_s); y.push(y[y.length - 1]); }
      return { x, y, mode: "lines+markers", line: { shape: "hv", width: 2, color: color(index) }, marker: { size: 5 }, name: escaped(run.label || "best"), showlegend: runs.length > 1,
        text: run.best.map((step) => `trial ${step.trial}, iteration ${step.iteration}`), hovertemplate: `%{text}<br>%{y:.5g}<extra>${escaped(run.label || "")}</extra>` };
    });
    const end = Math.max(1e-9, ...runs.map((run) => run.end_s));
    draw(place, traces, { height: height || 320, xaxis: money ? { title: { text: "money spent" }, tickprefix: "$", rangemode: "tozero" } : { title: { text: "time" }, ...timeAxis(end) },
      yaxis: { title: { text: runs[0] ? `best ${escaped(runs[0].metric)}` : "best" } } });
  }

  function nodes(place, figures) {
    const steps = [...figures.nodes, [figures.end_s, ...(figures.nodes.length ? figures.nodes[figures.nodes.length - 1].slice(1) : [0, 0])]];
    const at = steps.map((step) => step[0]);
    const traces = [
      { x: at, y: steps.map((step) => step[1]), name: "up", stackgroup: "held", line: { shape: "hv", width: 0 }, fillcolor: css("--c1"), hovertemplate: "%{y} up<extra></extra>" },
      { x: at, y: steps.map((step) => step[2]), name: "booting", stackgroup: "held", line: { shape: "hv", width: 0 }, fillcolor: css("--c4"), hovertemplate: "%{y} booting<extra></extra>" },
    ];
    if (figures.planned_nodes.length) traces.push({ x: figures.planned_nodes.map((step) => step[0]), y: figures.planned_nodes.map((step) => step[1]),
      name: "planned", mode: "lines", line: { shape: "hv", dash: "dot", color: css("--text"), width: 1.5 }, hovertemplate: "%{y} planned<extra></extra>" });
    const end = Math.max(figures.end_s, ...figures.planned_nodes.map((step) => step[0]), 1e-9);
    draw(place, traces, { height: 260, xaxis: timeAxis(end), yaxis: { title: { text: "nodes" }, rangemode: "tozero", tickformat: ",d", dtick: Math.max(0, ...steps.map((step) => step[1] + step[2]), ...figures.planned_nodes.map((step) => step[1])) <= 6 ? 1 : undefined } });
  }

  function money(place, figures) {
    const traces = [{ x: figures.money.map((p) => p[0]), y: figures.money.map((p) => p[1]), name: "spent", mode: "lines", fill: "tozeroy", line: { color: css("--c2"), width: 2 }, hovertemplate: "$%{y:.2f}<extra></extra>" }];
    if (figures.planned_money.length) traces.push({ x: figures.planned_money.map((p) => p[0]), y: figures.planned_money.map((p) => p[1]), name: "planned", mode: "lines", line: { dash: "dot", color: css("--text"), width: 1.5 }, hovertemplate: "$%{y:.2f} planned<extra></extra>" });
    const end = Math.max(figures.end_s, ...figures.planned_money.map((p) => p[0]), 1e-9);
    const shapes = figures.budget_usd === null ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: figures.budget_usd, y1: figures.budget_usd, line: { color: css("--bad"), width: 1.5 } }];
    draw(place, traces, { height: 260, shapes, xaxis: timeAxis(end), yaxis: { title: { text: "dollars" }, tickprefix: "$", rangemode: "tozero" } });
  }

  function gantt(place, figures, configs) {
    const data = figures.gantt, groups = new Map();
    for (const box of data.boxes) {
      if (!groups.has(box.activity)) groups.set(box.activity, []);
      groups.get(box.activity).push(box);
    }
    const traces = [...groups].map(([activity, boxes]) => ({
      type: "bar", orientation: "h", name: activity, base: boxes.map((box) => box.from_s), x: boxes.map((box) => box.until_s - box.from_s),
      y: boxes.map((box) => box.top + box.slots / 2), width: boxes.map((box) => box.slots * 0.92),
      marker: { color: boxes.map((box) => activity === "training" ? color(box.trial) : css(ACTIVITY[activity] || "--line")), line: { width: 0 } },
      text: boxes.map((box) => activity === "training" ? String(box.trial) : ""), textposition: "inside", insidetextanchor: "middle", textfont: { color: "#fff", size: 10 }, constraintext: "inside",
      customdata: boxes.map((box) => [box.trial, activity, elastune.duration(box.from_s), elastune.duration(box.until_s), box.end ? `, then ${box.end}` : "", settings(configs.get(box.trial) || {})]),
      hovertemplate: "<b>trial %{customdata[0]}</b> %{customdata[1]}, %{customdata[2]} to %{customdata[3]}%{customdata[4]}<br>%{customdata[5]}<extra></extra>",
    }));
    const height = Math.min(1200, Math.max(240, 90 + data.rows * 16));
    const ticks = data.lanes.map((_, lane) => (lane + 0.5) * data.slots_per_node);
    draw(place, traces, { height, margin: { l: 56, r: 16, t: 40, b: 42 }, barmode: "overlay", bargap: 0, xaxis: timeAxis(figures.end_s),
      yaxis: { autorange: "reversed", tickvals: ticks, ticktext: data.lanes.map((names) => escaped(names[names.length - 1] ?? "")), zeroline: false, range: [data.rows, 0] } });
  }

  function parallel(place, names, rows, score, rises, metric) {
    const scaled = names.map((name) => {
      const values = rows.map((row) => row.config[name]);
      const numbers = values.every((value) => typeof value === "number");
      if (!numbers) {
        const kinds = [...new Set(values.map(String))].sort();
        return { ticks: kinds.map((kind, index) => [kinds.length > 1 ? index / (kinds.length - 1) : 0.5, kind]), at: (row) => kinds.length > 1 ? kinds.indexOf(String(row.config[name])) / (kinds.length - 1) : 0.5 };
      }
      const low = Math.min(...values), high = Math.max(...values), log = low > 0 && high / low > 50;
      const f = log ? Math.log : (x) => x;
      const at = (value) => high > low ? (f(value) - f(low)) / (f(high) - f(low)) : 0.5;
      return { ticks: [[0, elastune.number(low)], [1, elastune.number(high)]], at: (row) => at(row.config[name]) };
    });
    const scores = rows.map(score), low = Math.min(...scores), high = Math.max(...scores);
    const order = rows.map((_, index) => index).sort((a, b) => rises ? scores[a] - scores[b] : scores[b] - scores[a]);
    const good = (value) => high > low ? (rises ? (value - low) : (high - value)) / (high - low) : 1;
    const traces = order.map((index) => {
      const share = good(scores[index]);
      return { type: "scatter", mode: "lines", x: [...names.keys(), names.length], y: [...scaled.map((axis) => axis.at(rows[index])), high > low ? (scores[index] - low) / (high - low) : 0.5],
        line: { width: 1 + 2 * share ** 4, color: css(share > 0.95 ? "--best" : "--c1") }, opacity: 0.12 + 0.85 * share ** 2, showlegend: false, hoverinfo: "text",
        text: `trial ${rows[index].trial}: ${escaped(elastune.number(scores[index]))}<br>${settings(rows[index].config)}` };
    });
    const notes = scaled.flatMap((axis, index) => axis.ticks.map(([y, text]) => ({ x: index, y, text: escaped(text), showarrow: false, xanchor: "left", xshift: 4, font: { size: 10 } })));
    notes.push(...[[0, low], [1, high]].map(([y, value]) => ({ x: names.length, y, text: elastune.number(value), showarrow: false, xanchor: "left", xshift: 4, font: { size: 10 } })));
    draw(place, traces, { height: 380, annotations: notes, margin: { l: 30, r: 60, t: 12, b: 60 },
      xaxis: { tickvals: [...names.keys(), names.length], ticktext: [...names, metric].map(escaped), range: [-0.1, names.length + 0.25], showgrid: true },
      yaxis: { visible: false, range: [-0.06, 1.06] } });
  }

  // A category is drawn as text, in which Plotly knows some tags.
  const shownValues = (rows, name) => rows.map((row) => typeof row.config[name] === "number" ? row.config[name] : escaped(row.config[name]));
  function slices(place, name, rows, score, metric) {
    const x = shownValues(rows, name), numbers = x.every((value) => typeof value === "number");
    draw(place, [{ x, y: rows.map(score), mode: "markers", type: "scatter", marker: { color: rows.map((row) => row.trial), colorscale: "Blues", size: 7, line: { width: 0.5, color: css("--line") } }, text: rows.map((row) => `trial ${row.trial}<br>${settings(row.config)}`), hovertemplate: "%{text}<br>%{y:.5g}<extra></extra>" }],
      { height: 260, xaxis: { title: { text: escaped(name) }, ...(wide(x) ? numberAxis(x) : { type: numbers ? "linear" : "category" }) }, yaxis: { title: { text: escaped(metric) } } });
  }

  function contour(place, names, rows, score, rises) {
    const [a, b] = names, axis = (name) => {
      const values = rows.map((row) => row.config[name]);
      const numbers = values.every((value) => typeof value === "number");
      return { ...(wide(values) ? numberAxis(values) : { type: numbers ? "linear" : "category" }), title: { text: escaped(name) } };
    };
    draw(place, [{ x: shownValues(rows, a), y: shownValues(rows, b), mode: "markers", type: "scatter",
      marker: { size: 13, color: rows.map(score), colorscale: "Viridis", reversescale: !rises, showscale: true, line: { width: 0.5, color: css("--line") } },
      text: rows.map((row) => `trial ${row.trial}: ${elastune.number(score(row))}<br>${settings(row.config)}`), hovertemplate: "%{text}<extra></extra>" }],
      { height: 380, xaxis: axis(a), yaxis: axis(b) });
  }

  function bars(place, shares) {
    const entries = Object.entries(shares).reverse();
    draw(place, [{ type: "bar", orientation: "h", x: entries.map((e) => e[1]), y: entries.map((e) => escaped(e[0])), marker: { color: css("--c1") }, hovertemplate: "%{x:.1%}<extra></extra>" }],
      { height: 80 + 28 * entries.length, xaxis: { tickformat: ".0%" }, yaxis: { type: "category" } });
  }

  function frontier(place, points, chosen, isFree) {
    draw(place, [
      { x: points.map((p) => p.jct_seconds), y: points.map((p) => isFree ? p.peak_nodes : p.cost), mode: "lines+markers", name: "best plans", line: { shape: "vh", color: css("--c1") }, marker: { size: 6 }, text: points.map((p) => `${elastune.duration(p.jct_seconds)}, ${elastune.usd(p.cost)}, up to ${p.peak_nodes} nodes`), hovertemplate: "%{text}<extra></extra>" },
      { x: [chosen.jct_seconds], y: [isFree ? chosen.peak_nodes : chosen.cost], mode: "markers", name: "this plan", marker: { size: 14, symbol: "star", color: css("--best") }, hovertemplate: "this plan<extra></extra>" },
    ], { height: 320, xaxis: { title: { text: "time" }, ...timeAxis(Math.max(...points.map((p) => p.jct_seconds), chosen.jct_seconds)) }, yaxis: { title: { text: isFree ? "nodes" : "cost" }, tickprefix: isFree ? "" : "$", rangemode: "tozero" } });
  }

  return { curves, best, nodes, money, gantt, parallel, slices, contour, bars, frontier };
})();
