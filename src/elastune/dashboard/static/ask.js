"use strict";
(function () {
  const { el, fill, read, send, duration, usd, number, table } = elastune;
  const text = el("textarea", { rows: 20, spellcheck: false, wrap: "off", "aria-label": "job file", placeholder: "A job file: search, deadline, budget, profile, cluster" });
  const known = el("select", { "aria-label": "job of a run" }), file = el("input", { type: "file", accept: ".yaml,.yml", "aria-label": "job file to open" });
  const sliders = el("div", { class: "sliders" }), result = el("div"), more = el("div"), simulated = el("div");
  let changes = {}, last = null, asked = 0, abort = null, later = null, sliding = false, behind = false;
  fill("ask", el("h1", {}, "Ask for a quote"), el("div", { class: "columns wide-right" },
    el("div", {}, el("div", { class: "row" }, known, el("label", { class: "button" }, "Open a file …", file)), text, el("div", { class: "row" }, el("button", { type: "button", class: "main", onclick: begin }, "Quote"))),
    el("div", {}, sliders, result)), more, simulated);
  fill(result, el("div", { class: "empty" }, el("p", {}, "Paste a job file, open one, or take the job of a run."), el("p", { class: "muted" }, "The quote says when the search ends and what it costs, before anything is spent. Then move the limits and watch it change.")));
  file.addEventListener("change", async () => { if (file.files[0]) { text.value = await file.files[0].text(); begin(); } });
  known.addEventListener("change", () => { const job = jobs[Number(known.value)]; if (job) { text.value = job.text; begin(); } });
  let jobs = [];
  elastune.plots.load();
  read("/api/jobs").then((found) => {
    jobs = found;
    fill(known, el("option", { value: "" }, found.length ? "the job of a run …" : "no runs yet"), found.map((job, index) => el("option", { value: index }, `${job.name} ${job.runs[0] || ""}${job.runs.length > 1 ? ` and ${elastune.plural(job.runs.length - 1, "more run")}` : ""}`)));
    return wanted();
  }).catch((error) => elastune.toast(error.message, "bad"));

  // /ask#run: the job of that run.
  async function wanted() {
    const run = location.hash.slice(1);
    if (!/^[0-9a-f]{6}(\.[0-9]+)?$/.test(run)) return;
    const at = jobs.findIndex((job) => job.runs.includes(run));
    if (at >= 0) known.value = String(at);
    text.value = at >= 0 ? jobs[at].text : (await read(`/api/runs/${run}/facts`)).job;
    await begin();
  }
  async function begin() {
    changes = {};
    fill(more); fill(simulated);
    const quote = await ask(true);
    if (quote) controls(quote);
  }
  async function ask(whole) {
    const number_ = ++asked;
    if (abort) abort.abort();
    abort = new AbortController();
    result.classList.add("busy");
    try {
      const quote = await send("/api/quote", { text: text.value, changes, whole }, abort.signal);
      if (number_ !== asked) return null;
      last = quote;
      shown(quote);
      if (whole) extras(quote);
      return quote;
    } catch (error) {
      if (error.name !== "AbortError" && number_ === asked) { fill(result, elastune.trouble(error)); fill(more); }
      return null;
    } finally { if (number_ === asked) result.classList.remove("busy"); }
  }
  function change(key, value) {
    changes[key] = value;
    slide();
    clearTimeout(later);
    later = setTimeout(() => ask(true), 700);
  }
  // A slider moves faster than quotes come: one is on its way, and the newest place is asked for next.
  async function slide() {
    if (sliding) { behind = true; return; }
    sliding = true;
    do { behind = false; await ask(false); } while (behind);
    sliding = false;
  }
  function slider(label, key, low, high, value, show, log) {
    const output = el("output", {}, value === null ? "none" : show(value));
    const scale = (x) => log ? low * (high / low) ** x : low + (high - low) * x;
    const place = (v) => log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
    const input = el("input", { type: "range", min: 0, max: 1, step: 0.005, value: value === null ? 1 : place(value), "aria-label": label,
      oninput: () => { if (value === null && Number(input.value) >= 1) { output.textContent = "none"; change(key, null); return; } const now = scale(Number(input.value)); const kept = key === "max_nodes" ? Math.max(1, Math.round(now)) : key === "deadline" ? Math.round(now) : Number(now.toPrecision(3)); output.textContent = show(kept); change(key, kept); } });
    return el("label", {}, el("span", {}, label), input, output);
  }
  function controls(quote) {
    const deadline = quote.limits.deadline, budget = quote.limits.budget, time = quote.jct_seconds, cost = quote.cost;
    fill(sliders,
      slider("deadline", "deadline", Math.min(time * 0.3, deadline ?? Infinity), Math.max(time * 4, deadline ?? 0), deadline, duration, true),
      quote.is_free ? null : slider("budget", "budget", Math.max(0.01, Math.min(cost * 0.3, budget ?? Infinity)), Math.max(cost * 4, budget ?? 0, 0.1), budget, usd, true),
      slider("confidence", "confidence", 0.5, 0.999, quote.limits.confidence, (v) => `${(100 * v).toFixed(1)} %`, false),
      quote.kind_names.length > 1 ? el("label", {}, el("span", {}, "node type"), el("select", { "aria-label": "node type", onchange: (event) => change("kind", event.target.value || null) }, el("option", { value: "" }, "the best one"), quote.kind_names.map((name) => el("option", { value: name }, name))), el("output")) : null,
      quote.most_nodes ? slider("most nodes", "max_nodes", 1, Math.max(quote.most_nodes * 2, 8), quote.most_nodes, (v) => String(Math.round(v)), true) : null);
  }
  function shown(quote) {
    const q = (key) => quote[key];
    const when = quote.jct_quantile_seconds !== undefined ? `${Math.round(1000 * quote.limits.confidence) / 10} % sure: ${duration(q("jct_quantile_seconds"))}` : "a mean of simulations";
    const dear = quote.cost_quantile !== undefined ? `${Math.round(1000 * quote.limits.confidence) / 10} % sure: ${usd(q("cost_quantile"))}` : "a mean of simulations";
    const cards = [el("div", { class: "card" }, el("h3", {}, "Finish"), el("p", { class: "big" }, duration(quote.jct_seconds)), el("p", { class: "muted" }, when))];
    if (!quote.is_free) cards.push(el("div", { class: "card" }, el("h3", {}, "Price"), el("p", { class: "big" }, usd(quote.cost)), el("p", { class: "muted" }, dear)));
    if (quote.static) cards.push(el("div", { class: "card" }, el("h3", {}, "A fixed cluster"), el("p", { class: "big" }, usd(quote.static.cost)), el("p", { class: "muted" }, `in ${duration(quote.static.jct_seconds)}`)));
    const stages = quote.stages ? table([
      { title: "stage", value: (row) => row.stage ?? row.index }, { title: "trials", value: (row) => row.trials }, { title: "iterations", value: (row) => row.iterations },
      { title: "slots each", value: (row) => row.slots_per_trial }, { title: "nodes", value: (row) => row.nodes_held ?? row.nodes },
      { title: "time", value: (row) => row.seconds, show: (row) => duration(row.seconds) }, { title: "cost", value: (row) => row.cost, show: (row) => usd(row.cost) },
    ], quote.stages.map((stage, index) => ({ index: index + 1, ...stage }))) : null;
    const buttons = el("div", { class: "row" },
      el("button", { type: "button", onclick: save }, "Save the job file"),
      elastune.mayChange ? [el("button", { type: "button", onclick: () => simulate("none") }, "Simulate"), el("button", { type: "button", onclick: () => simulate("harsh") }, "Simulate with faults"),
        el("button", { type: "button", onclick: () => elastune.confirm("Start this job?", [], () => send("/api/start", { text: text.value, changes })) }, "Start …")] : null);
    fill(result, el("div", { class: "cards" }, cards), quote.why ? el("p", { class: "muted" }, quote.why) : null, stages, buttons);
  }
  function extras(quote) {
    const parts = [];
    if (quote.frontier && quote.frontier.length) {
      const plot = el("div", { class: "plot" });
      parts.push(el("h2", {}, "Every best plan, by time and cost"), el("p", { class: "muted" }, "Click a plan to take its time as the deadline."), plot);
      setTimeout(() => elastune.plots.frontier(plot, quote.frontier, quote, quote.is_free, choose));
    }
    if (quote.kinds) {
      parts.push(el("h2", {}, "Node types"), table([{ title: "node type", value: (row) => row.name, words: true }, { title: "per hour", value: (row) => row.price_per_hour, show: (row) => usd(row.price_per_hour) },
        { title: "time", value: (row) => row.jct_seconds, show: (row) => row.jct_seconds === null ? "no plan" : duration(row.jct_seconds) }, { title: "cost", value: (row) => row.cost, show: (row) => row.cost === null ? "" : usd(row.cost) },
        { title: "", value: (row) => row.chosen, show: (row) => row.chosen ? "chosen" : row.why_not || "", words: true }], quote.kinds));
    }
    if (quote.comparison) {
      const rows = Object.entries(quote.comparison).map(([planner, forecast]) => ({ planner, ...(forecast || {}) }));
      parts.push(el("h2", {}, "Planners side by side"), table([{ title: "planner", value: (row) => row.planner, words: true, show: (row) => row.planner === quote.planner ? `${row.planner} (this plan)` : row.planner },
        { title: "time", value: (row) => row.jct_seconds, show: (row) => row.jct_seconds === undefined ? "no plan" : duration(row.jct_seconds) },
        { title: "cost", value: (row) => row.cost, show: (row) => row.cost === undefined ? "" : usd(row.cost) }], rows));
    }
    fill(more, parts);
  }
  // A plan's mean time, with room for what the confidence needs.
  async function choose(point) {
    const room = last && last.jct_quantile_seconds ? last.jct_quantile_seconds / last.jct_seconds : 1;
    changes.deadline = Math.ceil(point.jct_seconds * room * 1.005);
    const quote = await ask(true);
    if (quote) controls(quote);
  }
  async function save() {
    try {
      const job = await send("/api/job", { text: text.value, changes });
      const link = el("a", { download: "job.yaml", href: URL.createObjectURL(new Blob([job.text], { type: "application/yaml" })) });
      link.click();
    } catch (error) { elastune.toast(error.message, "bad"); }
  }
  const quoteIsFree = () => last !== null && last.is_free;
  async function simulate(faults) {
    fill(simulated, el("p", { class: "muted" }, "simulating …"));
    try {
      const found = await send("/api/simulate", { text: text.value, changes, faults, seed: 0 });
      const r = found.result, spent = el("div", { class: "plot" }), nodes = el("div", { class: "plot" }), money = el("div", { class: "plot" });
      const figures = await read(`/api/runs/${found.run}/figures`);
      fill(simulated, el("h2", {}, faults === "none" ? "Simulated" : "Simulated with faults"),
        el("p", {}, `${elastune.STATE_SENTENCES[r.ending] || r.ending} It took ${duration(r.actual.jct_seconds)}${quoteIsFree() ? "" : ` and ${usd(r.actual.cost)}`}, expected were ${duration(r.predicted.jct_seconds)}${quoteIsFree() ? "" : ` and ${usd(r.predicted.cost)}`}. `,
          found.invents ? "The values are made up, because only a real run can train this; time and money are those of the job. " : null,
          el("a", { href: `/runs/${found.run}` }, "See where time and money went")),
        spent, el("div", { class: "plots" }, nodes, quoteIsFree() ? null : money));
      elastune.plots.spent(spent, figures);
      elastune.plots.nodes(nodes, figures);
      if (!quoteIsFree()) elastune.plots.money(money, figures);
      simulated.scrollIntoView({ behavior: "smooth", block: "nearest" });
    } catch (error) { fill(simulated, elastune.trouble(error)); }
  }
})();
