"use strict";
// Plots of a run, by Plotly, in the colours of the page.

elastune.plots = (function () {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8"];
  const color = (index) => css(COLORS[index % COLORS.length]);
  // A gang has the colour of its trial: full while it trains, faint while it starts or saves.
  const STRENGTH = { training: 1, evaluating: 0.75, starting: 0.35, saving: 0.6 };
  // On a phone a finger scrolls the page, two zoom, and there is no room for the buttons of a plot.
  const isTouched = matchMedia("(hover: none)").matches;
  const config = { displaylogo: false, responsive: true, displayModeBar: isTouched ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

  function layout(more) {
    const axis = { gridcolor: css("--grid"), zerolinecolor: css("--grid"), linecolor: css("--line"), tickcolor: css("--line") };
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--text"), size: 12, family: css("--font") },
      margin: { l: 56, r: 16, t: 28, b: more.xaxis && more.xaxis.title ? 50 : 32 }, height: 320, hovermode: "closest",
      hoverlabel: { align: "left", bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--text"), family: css("--font"), size: 12 } },
      legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, font: { size: 11 }, traceorder: "normal" }, uirevision: "same", dragmode: isTouched ? false : "zoom", modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--muted"), activecolor: css("--accent") },
      xaxis: { ...axis, ...(more.xaxis || {}) }, yaxis: { ...axis, automargin: true, ...(more.yaxis || {}) },
    };
    const { xaxis, yaxis, ...rest } = more;
    return { ...base, ...rest, xaxis: base.xaxis, yaxis: base.yaxis };
  }
  const tick = (s) => {
    if (s === 0) return "0";
    const h = Math.floor(s / 3600), m = Math.floor((s % 3600) / 60), rest = s % 60;
    return [h ? `${h}h` : "", m ? `${m}m` : "", rest ? `${rest}s` : ""].join("");
  };
  function timeAxis(end) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
    const step = steps.find((each) => end / each <= (innerWidth < 700 ? 5 : 8)) || 86400 * Math.ceil(end / 86400 / 8);
    const ticks = [];
    for (let at = 0; at <= end * 1.001; at += step) ticks.push(at);
    return { tickvals: ticks, ticktext: ticks.map(tick), range: [0, end * 1.01 || 1] };
  }
  // Plotly labels only powers of ten; within two decades 2 and 5 are labelled as well.
  function numberAxis(values) {
    const numbers = values.filter((value) => typeof value === "number" && value > 0);
    const low = Math.min(...numbers), high = Math.max(...numbers);
    return { type: "log", dtick: numbers.length && high / low <= 100 ? "D2" : undefined };
  }
  const dollars = (values) => ({ tickprefix: "$", rangemode: "tozero", tickformat: Math.max(0, ...values) < 10 ? ",.2f" : "," });
  // Where there is nothing to draw, words instead of empty axes.
  const nothing = (height, text) => ({ height, xaxis: { visible: false }, yaxis: { visible: false },
    annotations: [{ text, x: 0.5, y: 0.5, xref: "paper", yref: "paper", showarrow: false, font: { color: css("--muted"), size: 13 } }] });
  const wide = (values) => values.every((value) => typeof value === "number") && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 50;
  const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const settings = (values) => Object.entries(values).map(([key, value]) => `${escaped(key)} = ${escaped(elastune.number(value))}`).join("<br>");
  // The library has five megabytes: the page shows its numbers first.
  let loading = null;
  const waiting = new Map();
  function load() {
    if (loading) return loading;
    return loading = new Promise((resolve, reject) => {
      document.head.append(elastune.el("script", { src: "/static/plotly.min.js", onload: resolve, onerror: () => reject(new Error("the plots could not be loaded; reload the page")) }));
    });
  }
  function draw(place, traces, shape) {
    const whole = layout(shape);
    place.style.minHeight = `${whole.height}px`;  // Plotly takes the height of its place when the window changes
    if (window.Plotly) return Plotly.react(place, traces, whole, config);
    waiting.set(place, [traces, whole]);
    return load().then(() => {
      const last = waiting.get(place);
      waiting.delete(place);
      return last ? Plotly.react(place, ...last, config) : null;
    });
  }

  function smooth(values, share) {
    if (!share) return values;
    let kept = values[0];
    return values.map((value) => (kept = share * kept + (1 - share) * value));
  }

  function curves(place, figures, options) {
    if (!figures.curves.length) return draw(place, [], nothing(260, "no trial has reported a value"));
    const seconds = options.x === "seconds";
    const shown = figures.curves.slice(0, options.most);
    const traces = shown.map((curve, index) => ({
      x: seconds ? curve.seconds : curve.iterations, y: smooth(curve.values, options.smoothing), mode: curve.values.length < 4 ? "lines+markers" : "lines", marker: { size: 6 }, type: "scatter",
      line: { width: curve.trial === options.highlight ? 3.5 : index === 0 ? 3 : 1.2, color: curve.trial === options.highlight ? css("--accent") : index === 0 ? css("--best") : color(curve.trial) },
      opacity: curve.trial === options.highlight ? 1 : options.highlight !== null ? 0.18 : index === 0 ? 1 : 0.55, name: `trial ${escaped(curve.trial)}`, showlegend: false, customdata: Array(curve.values.length).fill(curve.trial),
      hovertemplate: `<b>trial ${escaped(curve.trial)}</b> ${seconds ? "" : "after iteration "}%{x}<br>${escaped(figures.metric)} %{y:.5g}<br>${settings(curve.config)}<extra></extra>`,
    })).reverse();
    traces.sort((a, b) => (a.customdata[0] === options.highlight) - (b.customdata[0] === options.highlight));
    return draw(place, traces, {
      height: innerWidth < 700 ? 380 : 520, xaxis: { title: { text: seconds ? "time" : "iteration" }, ...(seconds ? timeAxis(figures.end_s) : options.logX ? numberAxis(shown.flatMap((curve) => curve.iterations)) : { type: "linear" }) },
      yaxis: { title: { text: escaped(figures.metric) }, ...(options.logY ? numberAxis(shown.flatMap((curve) => curve.values)) : { type: "linear" }) },
    });
  }

  function best(place, runs, against, height) {
    const money = against === "money";
    const traces = runs.map((run, index) => {
      const x = run.best.map((step) => money ? step.usd : step.at_s), y = run.best.map((step) => step.value);
      if (y.length) { x.push(money ? (run.money.length ? run.money[run.money.length - 1][1] : 0) : run.end_s); y.push(y[y.length - 1]); }
      return { x, y, mode: run.best.length > 60 ? "lines" : "lines+markers", line: { shape: "hv", width: 2, color: runs.length > 1 ? color(index) : css("--best") }, marker: { size: 4 }, name: escaped(run.label || "best"), showlegend: runs.length > 1,
        text: run.best.map((step) => escaped(`trial ${step.trial}, iteration ${step.iteration}`)), hovertemplate: `%{text}<br>%{y:.5g}<extra>${escaped(run.label || "")}</extra>` };
    });
    const end = Math.max(1e-9, ...runs.map((run) => run.end_s));
    if (runs.every((run) => !run.best.length)) { draw(place, [], nothing(height || 320, "no model was saved")); return; }
    draw(place, traces, { height: height || 320, xaxis: money ? { title: { text: "money spent" }, ...dollars(runs.map((run) => run.money.length ? run.money[run.money.length - 1][1] : 0)) } : timeAxis(end),
      yaxis: { title: { text: runs[0] ? `best ${escaped(runs[0].metric)}` : "best" } } });
  }

  function nodes(place, figures) {
    const steps = [...figures.nodes, [figures.end_s, ...(figures.nodes.length ? figures.nodes[figures.nodes.length - 1].slice(1) : [0, 0])]];
    const at = steps.map((step) => step[0]);
    const traces = [
      { x: at, y: steps.map((step) => step[1]), name: "up", stackgroup: "held", line: { shape: "hv", width: 0 }, fillcolor: css("--fill1"), hovertemplate: "%{y} up<extra></extra>" },
      { x: at, y: steps.map((step) => step[2]), name: "booting", stackgroup: "held", line: { shape: "hv", width: 0 }, fillcolor: css("--fill4"), hovertemplate: "%{y} booting<extra></extra>" },
    ];
    if (figures.planned_nodes.length) traces.push({ x: figures.planned_nodes.map((step) => step[0]), y: figures.planned_nodes.map((step) => step[1]),
      name: "planned", mode: "lines", line: { shape: "hv", dash: "dot", color: css("--text"), width: 1.5 }, hovertemplate: "%{y} planned<extra></extra>" });
    const end = Math.max(figures.end_s, ...figures.planned_nodes.map((step) => step[0]), 1e-9);
    draw(place, traces, { height: 260, xaxis: timeAxis(end), yaxis: { title: { text: "nodes" }, rangemode: "tozero", tickformat: ",d", dtick: Math.max(0, ...steps.map((step) => step[1] + step[2]), ...figures.planned_nodes.map((step) => step[1])) <= 6 ? 1 : undefined } });
  }

  function money(place, figures) {
    const traces = [{ x: figures.money.map((p) => p[0]), y: figures.money.map((p) => p[1]), name: "spent", mode: "lines", fill: "tozeroy", fillcolor: css("--fill2"), line: { color: css("--c2"), width: 2 }, hovertemplate: "$%{y:.2f}<extra></extra>" }];
    if (figures.planned_money.length) traces.push({ x: figures.planned_money.map((p) => p[0]), y: figures.planned_money.map((p) => p[1]), name: "planned", mode: "lines", line: { dash: "dot", color: css("--text"), width: 1.5 }, hovertemplate: "$%{y:.2f} planned<extra></extra>" });
    const end = Math.max(figures.end_s, ...figures.planned_money.map((p) => p[0]), 1e-9);
    const most = Math.max(0, ...figures.money.map((p) => p[1]), ...figures.planned_money.map((p) => p[1]));
    const shapes = figures.budget_usd === null || figures.budget_usd > 3 * most ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: figures.budget_usd, y1: figures.budget_usd, line: { color: css("--bad"), width: 1.5 } }];
    draw(place, traces, { height: 260, shapes, xaxis: timeAxis(end), yaxis: { title: { text: "dollars" }, ...dollars([most]) } });
  }

  function gantt(place, figures, configs) {
    const data = figures.gantt, groups = new Map();
    for (const box of data.boxes) {
      if (!groups.has(box.activity)) groups.set(box.activity, []);
      groups.get(box.activity).push(box);
    }
    const traces = [...groups].map(([activity, boxes]) => ({
      type: "bar", orientation: "h", name: escaped(activity), showlegend: false, base: boxes.map((box) => box.from_s), x: boxes.map((box) => box.until_s - box.from_s),
      y: boxes.map((box) => box.top + box.slots / 2), width: boxes.map((box) => box.slots - 0.12),
      marker: { color: boxes.map((box) => STRENGTH[activity] ? color(box.trial) : css("--line")), opacity: STRENGTH[activity] || 0.6, line: { width: 0 } },
      text: boxes.map((box) => activity === "training" ? escaped(box.trial) : ""), textposition: "inside", insidetextanchor: "middle", textangle: 0, textfont: { color: css("--on"), size: 11 }, constraintext: "inside",
      customdata: boxes.map((box) => [escaped(box.trial), escaped(activity), elastune.duration(box.from_s), elastune.duration(box.until_s), box.end ? `<br>${escaped(box.end)}` : "",
        box.value === null ? "" : `${escaped(figures.metric)} ${escaped(elastune.number(box.value))}<br>`, settings(configs.get(box.trial) || {})]),
      hovertemplate: "<b>trial %{customdata[0]}</b> %{customdata[1]}, %{customdata[2]} to %{customdata[3]}%{customdata[4]}<br>%{customdata[5]}%{customdata[6]}<extra></extra>",
    }));
    const height = Math.min(1400, Math.max(200, 60 + data.rows * (data.rows <= 24 ? 24 : 14)));
    const ticks = data.lanes.map((_, lane) => (lane + 0.5) * data.slots_per_node);
    const lines = data.lanes.slice(1).map((_, lane) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: (lane + 1) * data.slots_per_node, y1: (lane + 1) * data.slots_per_node, line: { color: css("--line"), width: 1 } }));
    draw(place, traces, { height, shapes: lines, margin: { l: 56, r: 16, t: 10, b: 32 }, barmode: "overlay", bargap: 0, xaxis: timeAxis(figures.end_s),
      yaxis: { tickvals: ticks, ticktext: data.lanes.map((names) => escaped(names[names.length - 1] ?? "")), zeroline: false, showgrid: false, range: [data.rows, 0] } });
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
        line: { width: 1 + 2 * share ** 4, color: css(share > 0.95 ? "--best" : "--c1") }, opacity: (rows.length > 60 ? 0.12 : 0.3) + (rows.length > 60 ? 0.85 : 0.68) * share ** 2, showlegend: false, hoverinfo: "text",
        text: `trial ${escaped(rows[index].trial)}: ${escaped(elastune.number(scores[index]))}<br>${settings(rows[index].config)}` };
    });
    const notes = scaled.flatMap((axis, index) => axis.ticks.map(([y, text]) => ({ x: index, y, text: escaped(text), showarrow: false, xanchor: "left", xshift: 4, bgcolor: css("--card"), font: { size: 10 } })));
    notes.push(...[[0, low], [1, high]].map(([y, value]) => ({ x: names.length, y, text: escaped(elastune.number(value)), showarrow: false, xanchor: "left", xshift: 4, font: { size: 10 } })));
    draw(place, traces, { height: 380, annotations: notes, margin: { l: 30, r: 60, t: 12, b: 60 },
      xaxis: { tickvals: [...names.keys(), names.length], ticktext: [...names, metric].map(escaped), range: [-0.1, names.length + 0.25], showgrid: true },
      yaxis: { visible: false, range: [-0.06, 1.06] } });
  }

  // A category is drawn as text, in which Plotly knows some tags.
  const shownValues = (rows, name) => rows.map((row) => typeof row.config[name] === "number" ? row.config[name] : escaped(row.config[name]));
  function slices(place, name, rows, score, rises, metric) {
    const x = shownValues(rows, name), numbers = x.every((value) => typeof value === "number");
    const top = bestOf(rows, score, rises), words = (row) => `<b>trial ${escaped(row.trial)}</b><br>${settings(row.config)}`;
    const points = (chosen, marker) => ({ x: shownValues(chosen, name), y: chosen.map(score), mode: "markers", type: "scatter", marker, showlegend: false, text: chosen.map(words), hovertemplate: `%{text}<br>${escaped(metric)} %{y:.5g}<extra></extra>` });
    draw(place, [points(rows, { color: css("--c1"), opacity: 0.55, size: 7 }), points([top], { color: css("--best"), size: 12, symbol: "star" })],
      { height: 250, margin: { l: 56, r: 16, t: 10, b: 50 }, xaxis: { title: { text: escaped(name) }, ...(wide(x) ? numberAxis(x) : { type: numbers ? "linear" : "category" }) }, yaxis: { title: { text: escaped(metric) } } });
  }
  const bestOf = (rows, score, rises) => rows.reduce((a, b) => (rises ? score(b) > score(a) : score(b) < score(a)) ? b : a);

  function contour(place, names, rows, score, rises) {
    const [a, b] = names, axis = (name) => {
      const values = rows.map((row) => row.config[name]);
      const numbers = values.every((value) => typeof value === "number");
      return { ...(wide(values) ? numberAxis(values) : { type: numbers ? "linear" : "category" }), title: { text: escaped(name) } };
    };
    const scores = rows.map(score), scale = { colorscale: "Viridis", reversescale: !rises, zmin: Math.min(...scores), zmax: Math.max(...scores) };
    const surface = landscape(rows, a, b, score);
    draw(place, [...(surface ? [{ ...surface, ...scale, type: "contour", opacity: 0.5, showscale: false, hoverinfo: "skip", contours: { coloring: "heatmap" }, line: { width: 0.5 } }] : []),
      { x: shownValues(rows, a), y: shownValues(rows, b), mode: "markers", type: "scatter", showlegend: false,
        marker: { size: 9, color: scores, colorscale: "Viridis", reversescale: !rises, showscale: true, colorbar: { thickness: 12, outlinewidth: 0 }, line: { width: 1, color: css("--card") } },
        text: rows.map((row) => `<b>trial ${escaped(row.trial)}</b>: ${escaped(elastune.number(score(row)))}<br>${settings(row.config)}`), hovertemplate: "%{text}<extra></extra>" }],
      { height: 420, margin: { l: 56, r: 16, t: 10, b: 50 }, xaxis: axis(a), yaxis: axis(b) });
  }
  // Between the trials: means of all, weighted by the inverse square of their distance.
  function landscape(rows, a, b, score) {
    const scaleOf = (name) => {
      const values = rows.map((row) => row.config[name]);
      if (rows.length < 8 || !values.every((value) => typeof value === "number")) return null;
      const f = wide(values) ? Math.log : (v) => v, back = wide(values) ? Math.exp : (v) => v, at = values.map(f), low = Math.min(...at), high = Math.max(...at);
      return high > low ? { at: at.map((v) => (v - low) / (high - low)), value: (share) => back(low + share * (high - low)) } : null;
    };
    const x = scaleOf(a), y = scaleOf(b), steps = [...Array(25).keys()].map((step) => step / 24);
    if (!x || !y) return null;
    const chosen = rows.map((_, index) => index).slice(0, 400);
    const z = steps.map((v) => steps.map((u) => {
      let sum = 0, weights = 0;
      for (const index of chosen) { const weight = 1 / ((x.at[index] - u) ** 2 + (y.at[index] - v) ** 2 + 0.002) ** 1.5; sum += weight * score(rows[index]); weights += weight; }
      return sum / weights;
    }));
    return { x: steps.map(x.value), y: steps.map(y.value), z };
  }

  function bars(place, shares) {
    const entries = Object.entries(shares).reverse();
    draw(place, [{ type: "bar", orientation: "h", x: entries.map((e) => e[1]), y: entries.map((e) => escaped(e[0])), marker: { color: css("--c1") }, hovertemplate: "%{x:.1%}<extra></extra>" }],
      { height: 60 + 30 * entries.length, margin: { l: 56, r: 16, t: 10, b: 32 }, bargap: 0.35, xaxis: { tickformat: ".0%", rangemode: "tozero" }, yaxis: { type: "category", showgrid: false } });
  }

  function frontier(place, points, chosen, isFree, choose) {
    const cost = (p) => isFree ? p.peak_nodes : p.cost, last = Math.max(...points.map((p) => p.jct_seconds), chosen.jct_seconds), isNear = chosen.limits.deadline !== null && chosen.limits.deadline < 3 * last, far = isNear ? Math.max(last, chosen.limits.deadline) : last;
    const shapes = [], annotations = [], ink = { color: css("--bad"), width: 1.5, dash: "dash" }, word = { showarrow: false, font: { color: css("--bad"), size: 11 } };
    const { deadline, budget } = chosen.limits;
    if (isNear) {
      shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: deadline, x1: deadline, line: ink });
      annotations.push({ ...word, x: deadline, y: 1, yref: "paper", text: "deadline", yanchor: "top", ...(deadline > 0.7 * far ? { xanchor: "right", xshift: -3 } : { xanchor: "left", xshift: 3 }) });
    }
    if (!isFree && budget !== null && budget < 3 * Math.max(...points.map(cost))) {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: budget, y1: budget, line: ink });
      annotations.push({ ...word, x: 1, xref: "paper", y: budget, text: "budget", xanchor: "right", yanchor: "bottom" });
    }
    const drawing = draw(place, [
      { x: points.map((p) => p.jct_seconds), y: points.map(cost), mode: "lines+markers", name: "best plans", line: { shape: "hv", color: css("--c1") }, marker: { size: 8 }, text: points.map((p) => `${elastune.duration(p.jct_seconds)}, ${elastune.usd(p.cost)}, up to ${p.peak_nodes} nodes`), hovertemplate: "%{text}<br>click to choose it<extra></extra>" },
      { x: [chosen.jct_seconds], y: [cost(chosen)], mode: "markers", name: "this plan", marker: { size: 15, symbol: "star", color: css("--best") }, hovertemplate: "this plan<extra></extra>" },
    ], { height: 340, shapes, annotations, xaxis: { title: { text: "mean time" }, ...timeAxis(far) }, yaxis: { title: { text: isFree ? "nodes" : "mean cost" }, tickprefix: isFree ? "" : "$", rangemode: "tozero" } });
    drawing.then(() => { place.removeAllListeners("plotly_click"); place.on("plotly_click", clicked); });
    function clicked(event) { const at = event.points.find((point) => point.curveNumber === 0); if (at) choose(points[at.pointIndex]); }
  }

  const SPENT = { training: "--c2", starting: "--c4", saving: "--c3", waiting: "--c8", booting: "--c5", idle: "--line" };
  function spent(place, figures) {
    const total = figures.money.length ? figures.money[figures.money.length - 1][1] : 0;
    const traces = Object.entries(figures.spent).map(([name, share]) => ({ type: "bar", orientation: "h", y: [""], x: [share], name: `${escaped(name)} ${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`, marker: { color: css(SPENT[name] || "--c6") },
      hovertemplate: `${escaped(name)} ${(100 * share).toFixed(1)} %${figures.is_free ? "" : `, about ${elastune.usd(share * total)}`}<extra></extra>` }));
    draw(place, traces, { height: innerWidth < 700 ? 180 : 120, barmode: "stack", margin: { l: 16, r: 16, t: innerWidth < 700 ? 110 : 46, b: 12 }, xaxis: { visible: false, range: [0, 1] }, yaxis: { visible: false } });
  }

  return { load, curves, best, nodes, money, gantt, parallel, slices, contour, bars, frontier, spent };
})();
